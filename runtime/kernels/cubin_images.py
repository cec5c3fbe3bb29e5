"""Compiled kernels for a GPU as named bytes: what the disk cache and packages keep of them."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from .cuda_driver import CubinImage

IMAGES = "images.json"


def blobs_of(images: Mapping[str, CubinImage]) -> dict[str, bytes]:
    """Names that end in `.json` are text."""
    told = {name: {k: v for k, v in asdict(image).items() if k != "cubin"} for name, image in images.items()}
    return {IMAGES: json.dumps(told).encode(), **{name: image.cubin for name, image in images.items()}}


def images_of(blobs: Mapping[str, bytes]) -> dict[str, CubinImage]:
    """Undoes `blobs_of`."""
    return {name: CubinImage(blobs[name], **told) for name, told in json.loads(blobs[IMAGES]).items()}
