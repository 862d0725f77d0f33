"""Writes the golden numbers of the GPT model: the same model, initial values, batches and optimizer in PyTorch, in f64.

Run by hand, its output is committed:  python3 gpt_golden.py   (PyTorch 1.13, NumPy; nothing else)
It shares no code with what it checks. Rules re-implemented here: kernels/ops/philox.hpp (initial values),
kernels/layers/gpt.hpp (names, layouts, deviations), and for the batches: sequence i of step k starts at token
((k * global_batch + i) * seq_len) mod (n_tokens - seq_len - 1), targets shifted by one.
"""
import json
import pathlib

import numpy as np
import torch

SIZES = dict(layers=2, hidden=32, heads=4, seq_len=16, vocab=61)
TRAIN = dict(seed=12345678901, n_tokens=4000, steps=50, global_batch=8, micro_batch=2, lr=3e-3, weight_decay=0.1,
             clip=1.0, beta1=0.9, beta2=0.95, epsilon=1e-8)
BATCH = 2  # sequences in the single batch whose activations and gradients are written


def philox_words(seed, name, blocks):
    """Philox4x32-10: `blocks` rows of four words."""
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001b3) % 2**64
    c = np.zeros((4, blocks), np.uint64)
    c[0] = np.arange(blocks)
    c[2], c[3] = h % 2**32, h >> 32
    low32, key0, key1 = np.uint64(2**32 - 1), seed % 2**32, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = np.stack([(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(key0), p1 & low32,
                      (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(key1), p0 & low32])
        key0, key1 = (key0 + 0x9E3779B9) % 2**32, (key1 + 0xBB67AE85) % 2**32
    return c.T


def normal(seed, name, dims, deviation):
    count = int(np.prod(dims))
    u = (philox_words(seed, name, (count + 3) // 4).astype(np.float64) + 0.5) / 2**32
    radius, angle = np.sqrt(-2 * np.log(u[:, 0::2])), 2 * np.pi * u[:, 1::2]
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2).reshape(-1)[:count]
    return torch.tensor((z * np.float64(np.float32(deviation))).astype(np.float32).astype(np.float64)).reshape(dims)


def initial(tied):
    layers, h, s, v = (SIZES[k] for k in ('layers', 'hidden', 'seq_len', 'vocab'))
    residual = np.float32(0.02) / np.sqrt(np.float32(2 * layers))
    p = {}
    add = lambda name, dims, deviation: p.update({name: normal(TRAIN['seed'], name, dims, deviation)})
    zeros = lambda name, n: p.update({name: torch.zeros(n, dtype=torch.float64)})
    ones = lambda name, n: p.update({name: torch.ones(n, dtype=torch.float64)})
    add('wte.weight', (v, h), 0.02)
    add('wpe.weight', (s, h), 0.02)
    for i in range(layers):
        b = f'h.{i}.'
        for name, dims, deviation in (('attn.c_attn', (h, 3 * h), 0.02), ('attn.c_proj', (h, h), residual),
                                      ('mlp.c_fc', (h, 4 * h), 0.02), ('mlp.c_proj', (4 * h, h), residual)):
            add(b + name + '.weight', dims, deviation)
            zeros(b + name + '.bias', dims[1])
        for norm in ('ln_1', 'ln_2'):
            ones(b + norm + '.weight', h)
            zeros(b + norm + '.bias', h)
    ones('ln_f.weight', h)
    zeros('ln_f.bias', h)
    if not tied:
        add('lm_head.weight', (v, h), 0.02)
    return {name: t.requires_grad_() for name, t in p.items()}


def block(x, p, b):
    batch, s, h = x.shape
    norm = lambda x, name: torch.nn.functional.layer_norm(x, (h,), p[b + name + '.weight'], p[b + name + '.bias'], 1e-5)
    linear = lambda x, name: x @ p[b + name + '.weight'] + p[b + name + '.bias']
    split = lambda t: t.reshape(batch, s, SIZES['heads'], -1).transpose(1, 2)
    q, k, v = (split(t) for t in linear(norm(x, 'ln_1'), 'attn.c_attn').split(h, dim=2))
    scores = q @ k.transpose(2, 3) / np.sqrt(h // SIZES['heads'])
    scores = scores.masked_fill(torch.ones(s, s).tril() == 0, float('-inf'))
    x = x + linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, s, h), 'attn.c_proj')
    wide = linear(norm(x, 'ln_2'), 'mlp.c_fc')
    gelu = 0.5 * wide * (1 + torch.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    return x + linear(gelu, 'mlp.c_proj')


def run(p, tokens, targets, tied):
    """The outputs of embedding and blocks, then the summed loss."""
    outputs = [p['wte.weight'][tokens] + p['wpe.weight'][:tokens.shape[1]]]
    for i in range(SIZES['layers']):
        outputs.append(block(outputs[-1], p, f'h.{i}.'))
    h = SIZES['hidden']
    x = torch.nn.functional.layer_norm(outputs[-1], (h,), p['ln_f.weight'], p['ln_f.bias'], 1e-5)
    logits = x @ p['wte.weight' if tied else 'lm_head.weight'].T
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, SIZES['vocab']), targets.reshape(-1), reduction='sum')
    return outputs, loss


def corpus():
    i = np.arange(TRAIN['n_tokens'])
    return torch.tensor(i * i % SIZES['vocab'])


def sequences(step, first, count):
    n, s, data = TRAIN['n_tokens'], SIZES['seq_len'], corpus()
    starts = [((step * TRAIN['global_batch'] + i) * s) % (n - s - 1) for i in range(first, first + count)]
    return torch.stack([data[a:a + s] for a in starts]), torch.stack([data[a + 1:a + s + 1] for a in starts])


def one_batch(tied):
    p = initial(tied)
    outputs, loss = run(p, *sequences(0, 0, BATCH), tied)
    loss = loss / (BATCH * SIZES['seq_len'])
    loss.backward()
    whole = ['wte.weight', 'h.0.attn.c_attn.weight', 'h.0.ln_1.weight', 'h.1.mlp.c_fc.bias', 'ln_f.bias']
    return dict(sequences=BATCH, loss=loss.item(),
                parameter_norms={k: t.norm().item() for k, t in p.items()},
                activation_norms={n: y.norm().item() for n, y in zip(['embedding', 'h.0', 'h.1'], outputs)},
                activations={'h.1': short(outputs[-1])},
                gradient_norms={k: t.grad.norm().item() for k, t in p.items()},
                gradients={k: short(p[k].grad) for k in whole + ([] if tied else ['lm_head.weight'])})


def curve(tied):
    p, t = initial(tied), TRAIN
    groups = [dict(params=[v for v in p.values() if v.dim() == 2], weight_decay=t['weight_decay']),
              dict(params=[v for v in p.values() if v.dim() == 1], weight_decay=0)]
    optimizer = torch.optim.AdamW(groups, lr=t['lr'], betas=(t['beta1'], t['beta2']), eps=t['epsilon'])
    losses, norms = [], []
    for step in range(t['steps']):
        optimizer.zero_grad()
        total = 0
        for first in range(0, t['global_batch'], t['micro_batch']):
            _, loss = run(p, *sequences(step, first, t['micro_batch']), tied)
            loss = loss / (t['global_batch'] * SIZES['seq_len'])
            loss.backward()
            total += loss.item()
        norm = torch.sqrt(sum((v.grad**2).sum() for v in p.values())).item()
        for v in p.values():
            v.grad *= min(1, t['clip'] / norm)
        optimizer.step()
        losses.append(total)
        norms.append(norm)
    return dict(loss=losses, gradient_norm=norms)


def short(t):
    return [float(f'{v:.8g}') for v in t.detach().reshape(-1).tolist()]


def main():
    for tied in (True, False):
        path = pathlib.Path(__file__).parent / f'gpt_{"tied" if tied else "untied"}.json'
        golden = dict(model=dict(SIZES, tied=tied), train=TRAIN, batch=one_batch(tied), curve=curve(tied))
        path.write_text(json.dumps(golden, separators=(',', ':')) + '\n')
        losses = golden['curve']['loss']
        print(f'{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.6f} -> {losses[-1]:.6f}')


main()
