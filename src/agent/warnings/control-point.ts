// Shows in status and log when no policy names the default control point, because every flow that gets a misspelt name would
// pass.

import type { SluiceProcess } from "#daemon/process.ts";

/** Returns a function that must be told the control points of the policies whenever these change. */
export function warnOfDefaultControlPoint(
  { health, log }: Pick<SluiceProcess, "health" | "log">,
  configured: string,
): (named: readonly string[]) => void {
  if (configured === "") return () => undefined;
  const status = health.root.at("system", "default-control-point");
  const text = `no policy names the control point ${JSON.stringify(configured)} of flow_control.default_control_point: checks that name none pass without limits`;
  let wasNamed = true;
  return (named) => {
    // Before there are policies, nothing can be misspelt.
    const isNamed = named.length === 0 || named.includes(configured);
    if (isNamed) status.ok(named.length === 0 ? "no policy is in force" : "policies name it");
    else status.fail(text);
    if (wasNamed && !isNamed) log.warn({}, text);
    wasNamed = isNamed;
  };
}
