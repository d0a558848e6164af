// Policies for tests of processes.

/** Refuses every request at a control point: its numbers, which are decisions, say so. */
export const refusesAll = (controlPoint: string, interval = "1s") => `circuit:
  evaluation_interval: ${interval}
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ${controlPoint} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 60s }
`;
