"""``python -m tensorae`` is the command ``tensorae``; torchrun starts it this way."""

from tensorae.cli import main

if __name__ == "__main__":
    main()
