"""What a person sees and is asked."""
