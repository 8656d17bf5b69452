"""Corpora, tokenizers, and how often tokens and pairs of tokens occur."""

from lnattn import models as models  # it says what is wrong with the settings of the hub's client
