// Text from outside, such as a file name, in a line that a person reads.

/** Escapes control and invisible characters, so that a line stays one harmless line. */
export function printable(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
