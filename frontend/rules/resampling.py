"""Upsampling."""
