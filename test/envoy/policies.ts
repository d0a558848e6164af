// Policies for the tests with Envoy: a path for each kind of answer, and a classifier for each source of a label.

import type { Files } from "../kit/folder.ts";

const LIMITS = `
circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors:
            - control_point: ingress
              label_matcher: { match_labels: { endpoint: limited } }
          in_ports:
            bucket_capacity: { constant_signal: { value: 2 } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters:
            interval: 60s
            limit_by_label_key: http.request.header.x_user
    - flow_control:
        sampler:
          in_ports: { accept_percentage: { constant_signal: { value: 0 } } }
          parameters:
            selectors:
              - control_point: ingress
                label_matcher: { match_labels: { endpoint: shut } }
              - control_point: ingress
                label_matcher: { match_labels: { http.request.header.x_shut: "yes" } }
    - flow_control:
        sampler:
          in_ports: { accept_percentage: { constant_signal: { value: 0 } } }
          parameters:
            denied_response_status_code: ServiceUnavailable
            selectors:
              - control_point: ingress
                label_matcher: { match_labels: { endpoint: busy } }
`;

const LABELS = `
circuit: { components: [] }
resources:
  flow_control:
    classifiers:
      - selectors: [{ control_point: ingress }]
        rules:
          endpoint:
            extractor:
              path_templates:
                template_values:
                  /limited/{}: limited
                  /shut: shut
                  /busy: busy
                  /orders/{}: orders
          tenant: { extractor: { from: request.http.headers.x-tenant } }
          plan: { extractor: { json: { from: request.http.body, pointer: /account/plan } } }
          subject: { extractor: { jwt: { from: request.http.bearer, json_pointer: /sub } } }
          hidden:
            telemetry: false
            extractor: { from: request.http.headers.x-tenant }
`;

export const POLICIES: Files = { "limits.yaml": LIMITS, "labels.yaml": LABELS };
