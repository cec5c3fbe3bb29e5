"""The choice behind `#bascule.schedule`: one folder for CPUs, one for GPUs; neither knows the other. One more for what is measured."""
