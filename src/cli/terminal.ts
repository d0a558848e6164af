// The terminal of a command: its streams, its environment, and colours for people. Tests pass their own.

import { styleText } from "node:util";
import { Fault } from "#base/fault.ts";
import { decodeUtf8, readTextFileOrPipe } from "#runtime/life/text-file.ts";

export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** The streams that a person reads on a terminal; none when absent. */
  readonly isTty?: { readonly out: boolean; readonly err: boolean };
}

/** The text of a file, or of standard input if the file is `-`. */
export function readSource(terminal: Terminal, file: string, maxBytes: number): Promise<string> {
  return file === "-" ? readInput(terminal, maxBytes) : readTextFileOrPipe(file, maxBytes);
}

async function readInput({ stdin }: Terminal, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > maxBytes) {
      throw new Fault("INVALID_ARGUMENT", `-: wanted at most ${maxBytes} bytes, got more`);
    }
    chunks.push(bytes);
  }
  return decodeUtf8("-", Buffer.concat(chunks));
}

export function printJson(terminal: Terminal, value: unknown): void {
  terminal.out(`${JSON.stringify(value, undefined, 2)}\n`);
}

const STYLES = { good: "green", bad: "red", doubtful: "yellow", strong: "bold" } as const;

/** The meaning of a coloured part of a text. */
export type Tone = keyof typeof STYLES;

/** Colours a text, or returns it unchanged where colours are off. */
export type Paint = (tone: Tone, text: string) => string;

/** Colours are on if the stream is a terminal that can show them and NO_COLOR (https://no-color.org) is not set. */
export function paintFor(terminal: Pick<Terminal, "env" | "isTty">, stream: "out" | "err"): Paint {
  const { NO_COLOR, TERM } = terminal.env;
  const plain = (NO_COLOR ?? "") !== "" || TERM === "dumb" || terminal.isTty?.[stream] !== true;
  if (plain) return (_, text) => text;
  return (tone, text) => styleText(STYLES[tone], text, { validateStream: false });
}
