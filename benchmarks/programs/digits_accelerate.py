"""A small training on scikit-learn's digits with Hugging Face's accelerate, which knows nothing of Regatta."""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train, and print the share of right answers on what was kept back."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    digits = load_digits()
    pictures = torch.tensor(digits.data, dtype=torch.float32) / 16
    answers = torch.tensor(digits.target)
    train = DataLoader(TensorDataset(pictures[:1500], answers[:1500]), batch_size=32, shuffle=True)
    test = DataLoader(TensorDataset(pictures[1500:], answers[1500:]), batch_size=99)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
    for epoch in range(10):
        for batch, target in train:
            loss = nn.functional.cross_entropy(model(batch), target)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")
    right = total = 0
    with torch.no_grad():
        for batch, target in test:
            guess, truth = accelerator.gather_for_metrics((model(batch).argmax(1), target))
            right, total = right + int((guess == truth).sum()), total + len(truth)
    accelerator.print(f"{accelerator.num_processes} processes, accuracy {right / total:.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
