"""How good the answers still are: pure comparisons of what two models say."""
