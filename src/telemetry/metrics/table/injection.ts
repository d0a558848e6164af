// Metrics of the injector of Kubernetes.

import type { MetricTable } from "./row.ts";

export const INJECTION_METRICS = {
  sluice_injector_reviews_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Reviews of new pods by result: injected, unchanged (the pod has all that it would get), skipped (it is to be left alone), refused (it could not work, or asks for what is not possible) or invalid (the request was no review of a pod). Every result is shown from 0.",
  },
  sluice_injector_unread_namespaces_total: {
    type: "counter",
    labels: [],
    about:
      "Reviews of pods whose namespace could not be read, so that its annotations, such as the agent group, were not applied.",
  },
  sluice_injector_review_duration_ms: {
    type: "histogram",
    labels: [],
    about: "Milliseconds until a review was answered.",
  },
  sluice_injector_missed_pods: {
    type: "gauge",
    labels: [],
    about:
      "Pods of labelled namespaces that run without an agent, because they are older than the label or were made while no injector answered. They stay so until they are replaced. Absent until the first search has finished.",
  },
} as const satisfies MetricTable;
