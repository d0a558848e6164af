// Colours in what commands print for people: only where the stream is a terminal, and never against NO_COLOR
// (https://no-color.org) or on a terminal that cannot show them.

import { styleText } from "node:util";
import type { Terminal } from "./command.ts";

/** The meaning of a coloured part of a text. */
export type Tone = "good" | "bad" | "doubtful" | "strong";

const STYLES = { good: "green", bad: "red", doubtful: "yellow", strong: "bold" } as const;

/** Colours a text, or returns it as it is where colours are not wanted. */
export type Paint = (tone: Tone, text: string) => string;

export function paintFor(terminal: Pick<Terminal, "env" | "isTty">, stream: "out" | "err"): Paint {
  const { NO_COLOR, TERM } = terminal.env;
  const plain = (NO_COLOR ?? "") !== "" || TERM === "dumb" || terminal.isTty?.[stream] !== true;
  if (plain) return (_, text) => text;
  return (tone, text) => styleText(STYLES[tone], text, { validateStream: false });
}
