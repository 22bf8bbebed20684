"""Refinement: groups exchange rows until their distortion stops falling."""
