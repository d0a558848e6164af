// Replica counts as agents report them to the controller.

import type { Replicas } from "#circuit/component.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { attributesOf, incomplete } from "./kinds/wrapper.ts";

const REPORT = "aperture.policy.sync.v1.ScaleStatusWrapper";

/** One report, and the component and policy version that it is about. */
export interface ReportedReplicas extends Replicas {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
}

/** @throws Fault INVALID_ARGUMENT when the bytes are not a complete report. */
export function readReplicas(bytes: Uint8Array): ReportedReplicas {
  const { commonAttributes, scaleStatus } = decode(REPORT, bytes);
  if (commonAttributes === null || scaleStatus === null) throw incomplete(REPORT);
  const { configuredReplicas: configured, actualReplicas: actual } = scaleStatus;
  return { ...attributesOf(commonAttributes), configured, actual };
}
