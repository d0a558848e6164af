// Draws series of a run as a self-contained SVG: panels stacked over a common time axis, phases shaded, for light
// and dark backgrounds.

import { axisTicks } from "./plot/scale.ts";
import type { TimeSeries } from "./run/results/series.ts";
import type { TimeWindow } from "./scenario.ts";
import type { DrawnPanel } from "./simulate.ts";

export interface Plot {
  readonly title: string;
  readonly durationMs: number;
  readonly phases: readonly TimeWindow[];
  readonly panels: readonly DrawnPanel[];
}

const WIDTH = 960;
const LEFT = 64;
const RIGHT = 16;
const HEAD = 48;
/** Heights in one panel: title and legend, plot area, and axis labels below. */
const [TITLE, HEIGHT, BELOW] = [28, 150, 22] as const;
const FOOT = 20;
/** Points per line; more than pixels would show nothing more. */
const MAX_POINTS = (WIDTH - LEFT - RIGHT) * 2;
const COLOURS = 6;

const STYLE = `
svg { --ink: #1f2328; --faint: #d0d7de; --ground: #ffffff; --shade: #f0f3f6;
  --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; --c4: #bf3989; --c5: #57606a; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --faint: #3d444d; --ground: #0d1117; --shade: #161b22;
  --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --c3: #bc8cff; --c4: #ff7bc0; --c5: #9da7b1; } }
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.title { font-weight: 600; font-size: 14px; }
.name { font-weight: 600; }
.grid { stroke: var(--faint); stroke-width: 1; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.shade { fill: var(--shade); }
`;

export function plotSvg({ title, durationMs, phases, panels }: Plot): string {
  const step = TITLE + HEIGHT + BELOW;
  const height = HEAD + panels.length * step + FOOT;
  const x = (ms: number) => LEFT + ((WIDTH - LEFT - RIGHT) * ms) / durationMs;
  const body = panels.map((panel, at) =>
    drawPanel(panel, { top: HEAD + at * step, x, phases, durationMs }),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title><style>${STYLE}</style>`,
    `<rect width="100%" height="100%" fill="var(--ground)"/>`,
    words(LEFT, 20, title, "title"),
    ...phases.map(({ name, from, until }) => words(x((from + until) / 2), 40, name, "", "middle")),
    ...body,
    "</svg>\n",
  ].join("\n");
}

interface Frame {
  readonly top: number;
  readonly x: (ms: number) => number;
  readonly phases: readonly TimeWindow[];
  readonly durationMs: number;
}

function drawPanel({ title, lines }: DrawnPanel, { top, x, phases, durationMs }: Frame): string {
  const ground = top + TITLE;
  const [low, high] = rangeOf(lines);
  const y = (value: number) => ground + HEIGHT * (1 - (value - low) / (high - low));
  const grid = axisTicks(low, high, 5).map((value) => {
    const at = num(y(value));
    return `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}"/>${words(LEFT - 6, y(value) + 4, label(value), "", "end")}`;
  });
  const times = axisTicks(0, durationMs / 1_000, 10).map((second) =>
    words(x(second * 1_000), ground + HEIGHT + 16, `${label(second)}s`, "", "middle"),
  );
  return [
    ...phases.flatMap(({ from, until }, at) => {
      if (at % 2 === 0) return [];
      const box = `x="${num(x(from))}" y="${ground}" width="${num(x(until) - x(from))}" height="${HEIGHT}"`;
      return [`<rect class="shade" ${box}/>`];
    }),
    ...grid,
    ...times,
    legend(title, lines, ground - 8),
    ...lines.map((line, at) => path(line, at, x, y)),
  ].join("\n");
}

/** The panel's title, and the name of each line in its colour. A single line needs no name beside the title. */
function legend(title: string, lines: readonly TimeSeries[], y: number): string {
  const parts = [title === "" ? "" : `<tspan class="name">${escaped(title)}</tspan>`];
  const alone = lines.length === 1 && title !== "";
  for (const [at, { name }] of (alone ? [] : lines).entries()) {
    const gap = parts.join("") === "" ? "" : ` dx="16"`;
    parts.push(`<tspan${gap} style="fill: var(--c${at % COLOURS})">▬ ${escaped(name)}</tspan>`);
  }
  return `<text x="${LEFT}" y="${y}">${parts.join("")}</text>`;
}

/** Draws a line with gaps at invalid readings. */
function path(
  line: TimeSeries,
  place: number,
  x: Frame["x"],
  y: (value: number) => number,
): string {
  const { times, values } = line;
  const every = Math.max(1, Math.ceil(values.length / MAX_POINTS));
  let drawn = "";
  let pen = "M";
  for (let at = 0; at < values.length; at += every) {
    const value = values[at] ?? Number.NaN;
    if (!Number.isFinite(value)) {
      pen = "M";
      continue;
    }
    drawn += `${pen}${num(x(times[at] ?? 0))} ${num(y(value))}`;
    pen = "L";
  }
  const dash = place >= COLOURS ? ` stroke-dasharray="5 3"` : "";
  return `<path class="line" style="stroke: var(--c${place % COLOURS})"${dash} d="${drawn}"/>`;
}

/** Range of the y axis. It includes zero and is never empty. */
function rangeOf(lines: readonly TimeSeries[]): readonly [number, number] {
  let [low, high] = [0, 0];
  for (const { values } of lines) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low === high) return [low, low + 1];
  const room = (high - low) * 0.05;
  return [low < 0 ? low - room : 0, high > 0 ? high + room : 0];
}

function words(x: number, y: number, text: string, style: string, anchor = "start"): string {
  const named = style === "" ? "" : ` class="${style}"`;
  return `<text x="${num(x)}" y="${num(y)}" text-anchor="${anchor}"${named}>${escaped(text)}</text>`;
}

function num(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function label(value: number): string {
  return String(Number(value.toPrecision(6)));
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (found) => ESCAPES[found] ?? "");
}
