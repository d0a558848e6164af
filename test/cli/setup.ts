// Servers and documents for tests of the command line.

import { join } from "node:path";

export const SLUICE = join(import.meta.dirname, "../../src/cli/sluice.js");

export const LIMITED = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 1 } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 60s, limit_by_label_key: http.request.header.x_user }
`;
