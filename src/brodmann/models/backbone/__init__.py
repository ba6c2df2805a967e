"""The pretrained network underneath: loading it, and finding its parts."""
