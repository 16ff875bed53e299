"""What it takes to train this model on an Ascend NPU; the model itself stays as it is."""
