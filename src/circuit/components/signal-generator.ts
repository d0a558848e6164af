// Walks along its steps, a tick at a time: on while only `forward` is true, back while only `backward` is, else
// it stands; `reset` goes to the start and is stronger than both. In the first step it shows that step's
// target, in every other one the way from the target before to its own in equal parts, where both are finite,
// else its own. Beyond the last step stands the last target. Durations are rounded up to ticks, at least one.

import { type Make, read, truthy } from "../component.ts";
import { constantOf } from "../plan.ts";

interface Step {
  readonly start: number;
  readonly ticks: number;
  readonly from: number;
  readonly to: number;
}

export const makeSignalGenerator: Make<"signal_generator"> = ({ parameters }, wires, around) => {
  const [forward, backward] = [wires.in("forward"), wires.in("backward")];
  const reset = wires.in("reset");
  const output = wires.out("output");
  const [atStart, atEnd] = [wires.out("at_start"), wires.out("at_end")];
  const steps: Step[] = [];
  let end = 0;
  for (const { target_output, duration } of parameters.steps) {
    const to = constantOf(target_output ?? {});
    const ticks = Math.max(1, around.ticks(duration));
    steps.push({ start: end, ticks, from: steps.at(-1)?.to ?? Number.NaN, to });
    end += ticks;
  }
  const target = steps.at(-1)?.to ?? Number.NaN;
  const state = around.keep(() => ({ at: 0 }));
  return {
    run: (readings) => {
      const way =
        Number(truthy(read(readings, forward))) - Number(truthy(read(readings, backward)));
      if (truthy(read(readings, reset))) state.at = 0;
      else state.at = Math.min(Math.max(0, state.at + way), end);
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
