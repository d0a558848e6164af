// Suggestions for misspelt words ("did you mean …?").

/** Optimal string alignment distance: the number of insertions, deletions, replacements and swaps of neighbours. */
export function distance(left: string, right: string): number {
  let before: number[] = [];
  let above = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      let least = Math.min(
        (above[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      if (row > 1 && column > 1 && swapped) least = Math.min(least, (before[column - 2] ?? 0) + 1);
      current.push(least);
    }
    before = above;
    above = current;
  }
  return above[right.length] ?? left.length;
}

/** The nearest word of `known` if it is close enough. Ties go to the first. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const limit = Math.max(2, Math.floor(word.length / 4));
  let best: string | undefined;
  let least = limit + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= least) continue;
    const found = distance(word.toLowerCase(), candidate.toLowerCase());
    if (found < least && found < candidate.length) {
      least = found;
      best = candidate;
    }
  }
  return best;
}

/** The known word with the same letters in another case style: `constant_output` for `constantOutput`. */
export function respelled(word: string, known: readonly string[]): string | undefined {
  const letters = (text: string): string => text.replaceAll(/[_-]/g, "").toLowerCase();
  const wanted = letters(word);
  return known.find((each) => letters(each) === wanted);
}
