"""The pretrained network: loading it, and finding its parts."""
