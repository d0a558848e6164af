// What a misspelt key was probably meant to be.

/** Whether `key` spells `name` in another way of writing words together (`constantOutput`, `Constant-Output`). */
export function isCamelOf(key: string, name: string): boolean {
  const bare = (text: string): string => text.replaceAll(/[_-]/g, "").toLowerCase();
  return key !== name && bare(key) === bare(name);
}

/** The one name that is near enough to be meant, the first among equals. */
export function closest(key: string, names: readonly string[]): string | undefined {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(key.length / 3)) + 1;
  for (const name of names) {
    if (Math.abs(name.length - key.length) >= least) continue;
    const distance = editDistance(key, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

/** Levenshtein distance over UTF-16 units; fine for keys. */
export function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const change = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
