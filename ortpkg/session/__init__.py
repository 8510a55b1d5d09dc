"""``InferenceSession``, its options and the stages of its start."""
