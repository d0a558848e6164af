// The kinds of components: one row for each kind, and behind it a file of `components/` that implements it.

import type { ComponentContext, ComponentFactory, RunningComponent, Wires } from "./component.ts";
import { makeAlerter } from "./components/alerter.ts";
import { makeAnd } from "./components/and.ts";
import { makeArithmeticCombinator } from "./components/arithmetic-combinator.ts";
import { makeBoolVariable } from "./components/bool-variable.ts";
import { makeConcurrencyLimiter } from "./components/concurrency-limiter.ts";
import { makeConcurrencyScheduler } from "./components/concurrency-scheduler.ts";
import { makeDecider } from "./components/decider.ts";
import { makeDifferentiator } from "./components/differentiator.ts";
import { makeEma } from "./components/ema.ts";
import { makeExtrapolator } from "./components/extrapolator.ts";
import { makeFirstValid } from "./components/first-valid.ts";
import { makeGradientController } from "./components/gradient-controller.ts";
import { makeHolder } from "./components/holder.ts";
import { makeIntegrator } from "./components/integrator.ts";
import { makeInverter } from "./components/inverter.ts";
import { makeLoadActuator } from "./components/load-actuator.ts";
import { makeMax } from "./components/max.ts";
import { makeMin } from "./components/min.ts";
import { makeNestedSignalEgress } from "./components/nested-signal-egress.ts";
import { makeNestedSignalIngress } from "./components/nested-signal-ingress.ts";
import { makeOr } from "./components/or.ts";
import { makePidController } from "./components/pid-controller.ts";
import { makePodScaleActuator } from "./components/pod-scale-actuator.ts";
import { makePodScaleReporter } from "./components/pod-scale-reporter.ts";
import { makePolynomialRangeFunction } from "./components/polynomial-range-function.ts";
import { makePromql } from "./components/promql.ts";
import { makePulseGenerator } from "./components/pulse-generator.ts";
import { makeQuotaScheduler } from "./components/quota-scheduler.ts";
import { makeRateLimiter } from "./components/rate-limiter.ts";
import { makeSampler } from "./components/sampler.ts";
import { makeSignalGenerator } from "./components/signal-generator.ts";
import { makeSma } from "./components/sma.ts";
import { makeSwitcher } from "./components/switcher.ts";
import { makeUnaryOperator } from "./components/unary-operator.ts";
import { makeVariable } from "./components/variable.ts";
import type { Configs, Kind, Leaf } from "./plan.ts";

const FACTORIES: Readonly<{ [K in Kind]: ComponentFactory<K> }> = {
  alerter: makeAlerter,
  and: makeAnd,
  arithmetic_combinator: makeArithmeticCombinator,
  bool_variable: makeBoolVariable,
  concurrency_limiter: makeConcurrencyLimiter,
  concurrency_scheduler: makeConcurrencyScheduler,
  decider: makeDecider,
  differentiator: makeDifferentiator,
  ema: makeEma,
  extrapolator: makeExtrapolator,
  first_valid: makeFirstValid,
  gradient_controller: makeGradientController,
  holder: makeHolder,
  integrator: makeIntegrator,
  inverter: makeInverter,
  load_actuator: makeLoadActuator,
  max: makeMax,
  min: makeMin,
  nested_signal_egress: makeNestedSignalEgress,
  nested_signal_ingress: makeNestedSignalIngress,
  or: makeOr,
  pid_controller: makePidController,
  pod_scale_actuator: makePodScaleActuator,
  pod_scale_reporter: makePodScaleReporter,
  polynomial_range_function: makePolynomialRangeFunction,
  promql: makePromql,
  pulse_generator: makePulseGenerator,
  quota_scheduler: makeQuotaScheduler,
  rate_limiter: makeRateLimiter,
  sampler: makeSampler,
  signal_generator: makeSignalGenerator,
  sma: makeSma,
  switcher: makeSwitcher,
  unary_operator: makeUnaryOperator,
  variable: makeVariable,
};

/** Creates the component of a leaf. */
export function createComponent(
  leaf: Leaf,
  wires: Wires,
  context: ComponentContext,
): RunningComponent {
  return create(leaf.kind, leaf.config, wires, context);
}

function create<K extends Kind>(
  kind: K,
  config: Configs[K],
  wires: Wires,
  context: ComponentContext,
): RunningComponent {
  return FACTORIES[kind](config, wires, context);
}
