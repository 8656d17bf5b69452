"""The claims of the notes on transformer mathematics (M), judged by results as they are.

Most of them are identities. The book checks that its functions obey them to rounding, and that a
statement which is wrong as written fails. Names of the results are in `book/claims.yml`.
"""

from lnattn_book.claims.rules import stated

m3, m4, m6, m7 = map(stated, ("M3", "M4", "M6", "M7"))
m8, m12, m13, m14 = map(stated, ("M8", "M12", "M13", "M14"))
