"""Shape and type inference with symbols: what operators make of what is known of their inputs."""
