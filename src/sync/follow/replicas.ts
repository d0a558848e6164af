// Reads and writes the stored messages about scaling: pod scalers with the objects that they name, decisions about them,
// and the replica counts that agents report to the controller.

import type { Replicas } from "#circuit/component.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { type Attributes, attributesOf, incomplete } from "./kinds/wrapper.ts";

const SCALER = "aperture.policy.sync.v1.PodScalerWrapper";
const DECISION = "aperture.policy.sync.v1.ScaleDecisionWrapper";
const REPORT = "aperture.policy.sync.v1.ScaleStatusWrapper";

/** A pod scaler, and the object that it scales. */
export interface StoredPodScaler extends Attributes {
  readonly object: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly namespace: string;
    readonly name: string;
  };
}

/** @throws Fault INVALID_ARGUMENT when the bytes are not a complete pod scaler. */
export function readPodScaler(bytes: Uint8Array): StoredPodScaler {
  const { commonAttributes, podScaler } = decode(SCALER, bytes);
  const selector = podScaler?.kubernetesObjectSelector;
  if (commonAttributes === null || !selector) throw incomplete(SCALER);
  const { apiVersion, kind, namespace, name } = selector;
  return { ...attributesOf(commonAttributes), object: { apiVersion, kind, namespace, name } };
}

/** The number of replicas that one component decided. */
export interface StoredScaleDecision extends Attributes {
  readonly replicas: number;
}

/** @throws Fault INVALID_ARGUMENT when the bytes are not a complete decision. */
export function readScaleDecision(bytes: Uint8Array): StoredScaleDecision {
  const { commonAttributes, scaleDecision } = decode(DECISION, bytes);
  if (commonAttributes === null || scaleDecision === null) throw incomplete(DECISION);
  return { ...attributesOf(commonAttributes), replicas: scaleDecision.desiredReplicas };
}

export interface ReportedReplicas extends Replicas, Attributes {}

/** @throws Fault INVALID_ARGUMENT when the bytes are not a complete report. */
export function readReplicas(bytes: Uint8Array): ReportedReplicas {
  const { commonAttributes, scaleStatus } = decode(REPORT, bytes);
  if (commonAttributes === null || scaleStatus === null) throw incomplete(REPORT);
  const { configuredReplicas: configured, actualReplicas: actual } = scaleStatus;
  return { ...attributesOf(commonAttributes), configured, actual };
}

export function writeReplicas({ configured, actual, ...of }: ReportedReplicas): Uint8Array {
  return encode(REPORT, {
    commonAttributes: attributesOf(of),
    scaleStatus: { configuredReplicas: configured, actualReplicas: actual },
  });
}
