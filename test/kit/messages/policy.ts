// Policies for tests, as texts.

/** A policy with one limiter or scheduler at the control point `p`: its kind, and its keys in YAML's flow style. */
export function limiterPolicy(kind: string, keys: string): string {
  const component = `{ flow_control: { ${kind}: { selectors: [{ control_point: p }], ${keys} } } }`;
  return `circuit: { evaluation_interval: 1s, components: [${component}] }\n`;
}

/** A policy that lets so many requests be in flight at the control point `p`. */
export function concurrencyPolicy(most: number): string {
  const parameters = "parameters: { max_inflight_duration: 3600s }";
  const ports = `in_ports: { max_concurrency: { constant_signal: { value: ${most} } } }`;
  return limiterPolicy("concurrency_limiter", `${ports}, ${parameters}`);
}
