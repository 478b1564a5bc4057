"""The longest end of a text that was in it before, followed token by token.

A suffix automaton takes amortised constant time per token and at most two states for each, so what
it finds is exact at any length. Source: Blumer et al. 1985, "The smallest automaton recognizing the
subwords of a text". Plain Python; knows nothing of models.
"""


class SuffixAutomaton:
    """tokens: the text so far. match_length: how long its longest end is that also ends earlier.

    match_end: where such an earlier one ends, so that tokens[match_end] came after it.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.match_length = 0
        self.match_end = 0
        # Of each state: ways on, the state of its strings' longest ends elsewhere, the length of
        # its longest string, and a place where its strings end. State 0 is the empty string.
        self._next: list[dict[int, int]] = [{}]
        self._link: list[int | None] = [None]
        self._length = [0]
        self._end = [0]
        self._last = 0

    def push(self, token: int) -> None:
        """Takes the next token of the text."""
        self.tokens.append(token)
        end = len(self.tokens)
        new = self._add({}, None, end, end)
        state: int | None = self._last
        while state is not None and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        match = 0 if state is None else self._after(state, token)
        self._link[new], self._last = match, new
        self.match_length, self.match_end = self._length[match], self._end[match]
        self._end[match] = end  # the latest place is the likeliest to go on alike

    def continuation(self, count: int) -> list[int]:
        """The `count` tokens that came after the earlier place, round and round if it is near."""
        if not self.match_length:
            return []
        period = len(self.tokens) - self.match_end
        return [self.tokens[self.match_end + i % period] for i in range(count)]

    def _after(self, state: int, token: int) -> int:
        """The state of the longest string of `state` and a token, split off if it must be."""
        target = self._next[state][token]
        if self._length[target] == self._length[state] + 1:
            return target
        ways = dict(self._next[target])
        clone = self._add(ways, self._link[target], self._length[state] + 1, self._end[target])
        place: int | None = state
        while place is not None and self._next[place].get(token) == target:
            self._next[place][token] = clone
            place = self._link[place]
        self._link[target] = clone
        return clone

    def _add(self, ways: dict[int, int], link: int | None, length: int, end: int) -> int:
        self._next.append(ways)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._length) - 1
