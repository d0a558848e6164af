// Moves along its steps, one tick at a time: forward while only `forward` is true, backward while only `backward` is,
// otherwise not at all; `reset` returns to the start and takes precedence. The first step outputs its target.
// Every other step interpolates linearly from the previous target to its own if both are finite, otherwise it
// outputs its own. After the last step the last target remains. Durations are rounded up to ticks, at least one.

import { type ComponentFactory, read, truthy } from "../component.ts";
import { constantOf } from "../plan.ts";

interface Step {
  readonly start: number;
  readonly ticks: number;
  readonly from: number;
  readonly to: number;
}

export const makeSignalGenerator: ComponentFactory<"signal_generator"> = (
  { parameters },
  wires,
  context,
) => {
  const [forward, backward] = [wires.in("forward"), wires.in("backward")];
  const reset = wires.in("reset");
  const output = wires.out("output");
  const [atStart, atEnd] = [wires.out("at_start"), wires.out("at_end")];
  const steps: Step[] = [];
  let end = 0;
  for (const { target_output, duration } of parameters.steps) {
    const to = constantOf(target_output ?? {});
    const ticks = Math.max(1, context.ticks(duration));
    steps.push({ start: end, ticks, from: steps.at(-1)?.to ?? Number.NaN, to });
    end += ticks;
  }
  const target = steps.at(-1)?.to ?? Number.NaN;
  const state = context.state(() => ({ at: 0 }));
  return {
    run: (readings) => {
      const direction =
        Number(truthy(read(readings, forward))) - Number(truthy(read(readings, backward)));
      if (truthy(read(readings, reset))) state.at = 0;
      else state.at = Math.min(Math.max(0, state.at + direction), end);
      readings[output] = state.at >= end ? target : valueAt(steps, state.at);
      readings[atStart] = Number(state.at === 0);
      readings[atEnd] = Number(state.at >= end);
    },
  };
};

function valueAt(steps: readonly Step[], at: number): number {
  for (const { start, ticks, from, to } of steps) {
    if (at >= start + ticks) continue;
    if (!Number.isFinite(from) || !Number.isFinite(to)) return to;
    return from + (to - from) * ((at - start) / ticks);
  }
  return Number.NaN;
}
