"""The one configuration record. Frozen; every field has a docstring and bounds; unknown keys are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import Field, ValidationInfo, field_validator, model_validator

from surefoot.config.critic_rules import critic_errors
from surefoot.config.market import MarketConfig, market_errors
from surefoot.config.options import (
    ImitationConfig,
    RobustConfig,
    UPGDConfig,
    VGSConfig,
    option_errors,
    training_option_errors,
)
from surefoot.config.risk_rules import risk_errors
from surefoot.config.schedule import parse_schedule
from surefoot.config.section import (
    Coefficient,
    Fraction,
    Pair,
    Positive,
    Registered,
    Scheduled,
    Section,
    Sizes,
    changed,
    no_decay,
    within,
)

Advantages = Literal["rollout", "minibatch", "env", "none"]
Sink = Literal["tensorboard", "wandb", "mlflow"]
Vectorization = Literal["auto", "sync", "vector_entry_point"]


class PPOConfig(Section):
    """The algorithm: rollout size, objective, optimizer, normalizers."""

    learning_rate: Coefficient = 3e-4
    """Step size of the optimizer; a number or a schedule such as "linear(1e-3, 0)"."""
    critic_learning_rate: Coefficient | None = None
    """Step size for the parts that only the critic has, a number or a schedule; None is learning_rate."""
    n_steps: Positive = 256
    """Steps per environment in one rollout; a rollout has n_steps x n_envs rows."""
    batch_size: Positive | None = None
    """Rows per gradient step; None is 64, or the rollout if that is smaller. What does not fill the last minibatch
    of an epoch makes a smaller one."""
    n_epochs: Positive = 10
    """Passes over each rollout."""
    gamma: Fraction = 0.99
    """Discount per step."""
    gae_lambda: Fraction = 0.95
    """Trace decay of generalised advantage estimation; 1 is Monte Carlo, 0 is one-step."""
    clip_range: Annotated[float | str, within(0.0, 10.0)] = 0.2
    """How far the probability ratio may move from 1 before its gradient is cut."""
    clip_range_vf: Annotated[float | str, within(0.0)] | None = None
    """How far a value prediction may move from its old one, in standard deviations of the returns, or in normalized
    reward units if critic.popart is off; None turns it off."""
    normalize_advantage: Advantages = "rollout"
    """Over what advantages are standardized: the rollout, each minibatch, each env, or not at all. With critic.popart
    those of a rollout or an env are divided by a tenth of the returns' running standard deviation at least."""
    ent_coef: Coefficient = 0.0
    """Weight of the entropy bonus; also takes decay(start, floor, updates) with plateau delay."""
    head_ent_coefs: dict[str, Scheduled] = Field(default_factory=dict)
    """Weight of the entropy bonus of single heads of a factored action, in place of ent_coef: {"op": 0.02}."""
    head_ent_coef_floors: dict[str, Annotated[float, Gt(0.0)]] = Field(default_factory=dict)
    """Lowest weight of the entropy bonus of single heads, whatever a schedule says: {"op": 0.001}."""
    entropy_floor: float | None = None
    """While the mean entropy is below this, in nats, a bonus is added whose weight grows by half per update; above it
    falls again. Entropies of continuous actions may be negative. None adds none."""
    vf_coef: Coefficient = 0.5
    """Weight of the value loss."""
    max_grad_norm: Annotated[float, Ge(0.0)] = 0.5
    """Longest gradient; longer ones are scaled down. 0 or None turns it off."""
    target_kl: Annotated[float, Gt(0.0)] | None = None
    """Stop an update, before the step, once the KL divergence exceeds 1.5 times this; None never stops."""
    kl_estimator: Literal["k1", "k2", "k3", "exact"] = "k3"
    """Which KL the stop, the adaptive learning rate and train/approx_kl use."""
    adaptive_lr_kl: Annotated[float, Gt(0.0)] | None = None
    """Adapt the learning rate so that the KL per update stays within a factor 2 of this; None leaves the schedule."""
    kl_coef: Scheduled = 0.0
    """Weight of a penalty on KL(old ‖ new) beside the clip; a number or a schedule."""
    adaptive_kl_coef: bool = False
    """Double kl_coef after an update with KL > 1.5·target_kl, halve it after one with KL < target_kl/1.5."""
    dual_clip: Annotated[float, Gt(1.0)] | None = None
    """Bound the loss of very unlikely bad actions at this multiple of the advantage (about 3); None is plain PPO."""
    log_ratio_bound: Literal["clamp", "tanh"] = "clamp"
    """How log-ratios are kept within 20; tanh keeps a gradient beyond."""
    logit_penalty: Coefficient = 0.0
    """Weight of a soft penalty on logits beyond 10 (discrete actions), a number or a schedule; guards against
    collapse."""
    optimizer: Annotated[Literal["adam", "adamw", "upgd", "adaupgd"], Registered("ppo.optimizer")] = "adam"
    """adamw decouples weight decay from the gradient; upgd and adaupgd protect useful weights and shake the others."""
    adam_eps: Annotated[float, Gt(0.0)] = 1e-5
    """Term added to Adam's denominator."""
    adam_betas: Pair = (0.9, 0.999)
    """Decay of Adam's running mean and square."""
    weight_decay: Annotated[float, Ge(0.0)] = 0.0
    """Pull of parameters towards 0."""
    decay_scope: Literal["critic", "all"] = "critic"
    """Whose weights decay. On an actor, decay shrinks logits (more entropy) or means (towards 0)."""
    micro_batch_size: Positive | None = None
    """Compute each gradient in pieces of at most so many rows (less memory, same gradient); None is one piece."""
    autocast: Literal["bfloat16"] | None = None
    """Compute the encoders of actor and critic in bfloat16 (torch.autocast); weights, memories, output layers, losses
    and statistics stay in float32. None computes everything in float32."""
    diagnostics: bool = True
    """Measure losses by term, ratios, divergences and entropies of every minibatch; parameters are the same without."""
    max_nonfinite_updates: Positive = 3
    """Stop the run after so many optimizer steps in a row were skipped for NaN or Inf."""
    normalize_observations: bool = False
    """Standardize float observations by running statistics, which are saved with the model."""
    normalize_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return, which is saved with the model."""
    observation_statistics: Literal["rollout", "step"] = "rollout"
    """When the statistics of observations move: between rollouts, or at every step, which adapts faster early on."""
    observation_clip: Annotated[float, Gt(0.0)] = 10.0
    """Largest normalized observation."""
    reward_clip: Annotated[float, Gt(0.0)] = 10.0
    """Largest normalized reward."""

    @field_validator("normalize_advantage", mode="before")
    @classmethod
    def _bool_is_known_from_sb3(cls, value: Any) -> Any:
        return {True: "rollout", False: "none"}.get(value, value) if isinstance(value, bool) else value

    @field_validator("max_grad_norm", mode="before")
    @classmethod
    def _none_is_off(cls, value: Any) -> Any:
        return 0.0 if value is None else value

    @field_validator(
        "learning_rate", "critic_learning_rate", "clip_range", "clip_range_vf", "vf_coef", "logit_penalty", mode="after"
    )
    @classmethod
    def _decay_is_for_entropy(cls, value: float | str | None) -> float | str | None:
        return value if value is None else no_decay(value)


class PolicyConfig(Section):
    """The networks between observation and action distribution."""

    hidden_sizes: Sizes = (64, 64)
    """Width of each hidden layer."""
    critic_hidden_sizes: Sizes | None = None
    """Width of each hidden layer of the critic, if others than the actor's; None is hidden_sizes."""
    encoder: str = ""
    """Class of an own encoder, module:Class, in place of the hidden layers; in Python the class itself. It is made from
    the layout of the observation, has n_outputs, and turns leaves by name [B, ...] into features [B, n_outputs]."""
    activation: Literal["tanh", "relu", "elu", "silu", "gelu"] = "tanh"
    """Non-linearity after each hidden layer."""
    layer_norm: bool = False
    """LayerNorm in each hidden layer: linear, norm, activation."""
    shared: bool = False
    """One trunk for actor and critic instead of two."""
    ortho_init: bool = True
    """Orthogonal weights (gain √2 hidden, 0.01 policy, 1 value); otherwise PyTorch's default."""
    distribution: Annotated[Literal["auto", "gaussian", "tanh_gaussian", "beta"], Registered("policy.distribution")] = (
        "auto"
    )
    """Distribution of continuous actions; auto is gaussian."""
    log_std_init: Annotated[float, Ge(-20.0), Le(2.0)] = 0.0
    """Initial log standard deviation of Gaussian actions, in half-widths of the action box where it is bounded."""
    std_min: Annotated[float, Gt(0.0)] | None = None
    """Smallest standard deviation of Gaussian actions, in the units of log_std_init; None has no bound."""
    std_max: Annotated[float, Gt(0.0)] | None = None
    """Largest standard deviation of Gaussian actions."""
    state_dependent_std: bool = False
    """Let the network set the standard deviation instead of a state-independent parameter."""
    cnn_channels: Sizes = (32, 64, 64)
    """Channels of the convolutions for image observations."""
    cnn_features: Positive = 512
    """Width of the layer after the convolutions."""
    mask_key: str = "action_mask"
    """Key of a Dict observation that holds the mask of legal actions, and is no feature then; empty looks for none."""


class CriticConfig(Section):
    """The value function."""

    kind: Annotated[Literal["scalar", "quantile", "categorical"], Registered("critic.kind")] = "scalar"
    """What the critic predicts: the mean return, or the distribution of the return as quantiles or as probabilities of
    atoms."""
    n_quantiles: Annotated[int, Ge(2)] = 32
    """Quantiles of the return (kind = quantile)."""
    kappa: Annotated[float, Ge(0.0), Le(1.0)] = 0.02
    """Half-width of the quadratic zone of the quantile loss, as a share of the returns' standard deviation; 0 is the
    pinball loss. It draws each quantile towards the middle, by up to kappa/2 of it."""
    n_atoms: Annotated[int, Ge(2)] = 51
    """Atoms of the return (kind = categorical)."""
    v_min: float | None = None
    """Lowest atom, in normalized reward units; None lets the support follow the returns."""
    v_max: float | None = None
    """Highest atom; given together with v_min."""
    targets: Literal["auto", "lambda", "monte_carlo", "backup"] = "auto"
    """What a quantile or categorical critic learns: the λ-return, the return itself as far as the rollout goes (λ = 1),
    or the whole distribution r + γ·Z(s'). The tails of λ-returns with λ < 1 are too thin, so auto is monte_carlo if
    risk.kind is about CVaR; else lambda, which learns the mean fastest. A backup costs most."""
    twin: Literal["none", "heads", "trunks"] = "none"
    """Two critics, of which the lower is believed: two output layers on one trunk (heads), or two
    trunks."""
    popart: bool | Literal["auto"] = "auto"
    """Let the critic predict in standard deviations of the returns, so that rewards of any size are learned alike; it
    is then also the unit of ppo.clip_range_vf. auto does so unless v_min and v_max fix the support."""
    clip_mode: Literal["none", "mean_only", "mean_and_variance", "per_quantile"] = "none"
    """What ppo.clip_range_vf holds near its old value in a quantile or categorical critic: the mean; the mean, with at
    most twice the old standard deviation; or each quantile."""

    @property
    def in_return_stds(self) -> bool:
        """Whether the critic predicts in standard deviations of the returns."""
        return self.v_min is None if self.popart == "auto" else self.popart


class MemoryConfig(Section):
    """What the policy remembers within an episode."""

    kind: Annotated[Literal["none", "lstm", "gru"], Registered("memory.kind")] = "none"
    """Recurrent layer between encoder and output layers."""
    hidden_size: Positive = 64
    """Width of the memory."""
    layers: Positive = 1
    """Recurrent layers on top of each other."""
    output_sizes: Sizes = ()
    """Hidden layers between the memory's LayerNorm and the output layers, with policy.activation and without
    policy.layer_norm."""
    shared: bool = False
    """One memory for actor and critic instead of two; needs policy.shared."""
    max_length: Annotated[int, Ge(2)] | None = None
    """Longest sequence that is differentiated through; None is the whole episode within the rollout."""
    burn_in: Annotated[int, Ge(0)] = 0
    """Steps before each cut sequence that are replayed to refresh its state, without loss; needs max_length."""
    span: Annotated[int, Ge(3)] | None = None
    """Longest time in steps that the memory keeps things for before any training: gates start with times
    from 2 to span (chrono initialization). None starts with short ones: forget-gate bias 1, GRU 0."""


class RiskConfig(Section):
    """Tail risk and costs in the objective. They act on the advantages of the policy, never on the critic's values."""

    kind: Annotated[
        Literal["none", "cvar_objective", "cvar_constraint", "cost_constraint"], Registered("risk.kind")
    ] = "none"
    """Mix CVaR of the episode return into the objective, keep a CVaR above a limit, or the mean cost below one."""
    alpha: Annotated[float, Gt(0.0), Le(1.0)] = 0.05
    """CVaR is the mean of the worst share alpha of episodes, or of steps; 0.05 is what others call CVaR 95 %."""
    limit_per_episode: float | None = None
    """Lowest CVaR of the episode return, or highest mean episode cost; of the plain sum over an episode, raw."""
    limit_discounted: float | None = None
    """The same for the sum discounted by ppo.gamma from the start of the episode, raw."""
    limit_per_step: float | None = None
    """Lowest CVaR of the reward of one step, raw: the expected shortfall of one period. Needs no episode to end."""
    observe_return: bool = False
    """Show the policy how far its episode is from the tail: the best policy for the CVaR of whole episodes depends on
    what was earned so far. predict then needs episode_return."""
    max_steps_without_episode: Positive = 20_000
    """Steps of each env without the end of an episode after which a CVaR or mean cost of episodes is an error."""
    cvar_weight: Annotated[float, Gt(0.0), Le(1.0)] = 0.5
    """Weight w of (1 - w)·mean + w·CVaR in kind cvar_objective."""
    multiplier_lr: Scheduled = 0.5
    """Change of the multiplier per update and unit of violation. A violation is v/(σ + |v|), σ being the standard
    deviation of the returns or costs that the limit is about: small ones count in units of σ, none counts beyond 1."""
    multiplier_init: Annotated[float, Ge(0.0)] = 0.0
    """Multiplier at the start."""
    multiplier_kp: Annotated[float, Ge(0.0)] = 10.0
    """Weight of the smoothed violation, in standard deviations, in the multiplier: damps its swings. 0 is plain dual
    ascent."""
    multiplier_kd: Annotated[float, Ge(0.0)] = 0.0
    """Weight of the change of the smoothed violation in the multiplier."""
    multiplier_smoothing: Annotated[float, Ge(0.0), Lt(1.0)] = 0.5
    """Share of the old value in the smoothed violation; 0 does not smooth."""
    cost_key: str = "cost"
    """Key of the cost in the env's info, for kind cost_constraint; every step must give it."""


class RunConfig(Section):
    """What a run writes, and when."""

    checkpoint_every: Annotated[int, Ge(0)] = 50_000
    """Env steps between checkpoints; 0 keeps only the last."""
    keep_checkpoints: Positive = 3
    """How many of the newest checkpoints stay."""
    log_interval: Positive = 1
    """Updates between two lines of metrics."""
    eval_every: Annotated[int, Ge(0)] = 0
    """Env steps between evaluations on a separate env with fixed seeds; 0 never evaluates."""
    eval_env: str = ""
    """Env to evaluate in, as `env`; empty is another env like the one that is trained in."""
    eval_env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the env to evaluate in, as JSON; where it is the env that is trained in, they go over env_kwargs."""
    eval_episodes: Positive = 20
    """Episodes per evaluation."""
    patience: Annotated[int, Ge(0)] = 0
    """Stop after so many evaluations without a better mean return; 0 never stops."""
    sinks: Annotated[tuple[Sink, ...], Field(strict=False)] = ("tensorboard",)
    """Where metrics go besides metrics.jsonl; wandb and mlflow need their extra."""


class Config(Section):
    """Everything that decides a training run."""

    env: str = ""
    """Gymnasium id, or module:callable that makes an env."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the env, as JSON on the command line: '{"g": 9.81}'."""
    n_envs: Positive = 8
    """Environments stepped side by side."""
    vectorization: Vectorization = "auto"
    """How the environments of an id are stepped: one after the other (sync), or all in one call of the id's own vector
    env (vector_entry_point). auto takes the vector env of ids in surefoot/ that have one unless there are workers, and
    sync for all other ids, whose state can be saved."""
    workers: Annotated[int, Ge(0)] = 0
    """Worker processes that step the environments; 0 steps them in this process."""
    worker_timeout: Annotated[float, Gt(0.0)] = 60.0
    """Seconds after which a worker that gives no answer is replaced; longer than the slowest step, reset or making."""
    seed: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Root of every random stream."""
    total_timesteps: Positive = 100_000
    """Env steps to train, rounded up to whole rollouts."""
    device: str = "cpu"
    """Torch device of the networks: cpu, cuda, cuda:0 …"""
    compile: bool | Literal["auto"] = "auto"
    """Compile the gradient step and acting. auto does so when a C++ compiler is there and the run is long enough to pay
    (with memory: first its loops over time and acting, in longer runs the whole step)."""
    threads: Positive = 1
    """Torch threads; small networks are fastest with one."""
    ppo: PPOConfig = PPOConfig()
    policy: PolicyConfig = PolicyConfig()
    critic: CriticConfig = CriticConfig()
    memory: MemoryConfig = MemoryConfig()
    risk: RiskConfig = RiskConfig()
    upgd: UPGDConfig = UPGDConfig()
    vgs: VGSConfig = VGSConfig()
    imitation: ImitationConfig = ImitationConfig()
    robust: RobustConfig = RobustConfig()
    market: MarketConfig = MarketConfig()
    run: RunConfig = RunConfig()

    @property
    def rollout_rows(self) -> int:
        """Rows of one rollout, over all envs."""
        return self.ppo.n_steps * self.n_envs

    @property
    def batch_size(self) -> int:
        """Rows of one minibatch."""
        return self.ppo.batch_size or min(64, self.rollout_rows)

    @property
    def is_one_step(self) -> bool:
        """Whether a rollout makes one gradient step, so that no probability ratio leaves 1: this is A2C (P10)."""
        ratio = self.rollout_rows / self.batch_size
        minibatches = ratio if self.memory.kind == "none" else round(ratio)  # whole sequences, of about that many rows
        return self.ppo.n_epochs == 1 and minibatches <= 1

    @model_validator(mode="after")
    def _no_contradictions(self, info: ValidationInfo) -> Config:
        found = contradictions(self)
        if info.context != ACTING:
            found = [*training_contradictions(self), *found]
        if found:
            raise ValueError("; ".join(found))
        return self


ACTING = "acting"
"""Context of a validation that leaves out what only training needs."""
RATIO_FIELDS = (
    "clip_range",
    "clip_range_vf",
    "target_kl",
    "kl_estimator",
    "adaptive_lr_kl",
    "kl_coef",
    "dual_clip",
    "log_ratio_bound",
)
"""Settings about how far the policy or the critic has moved since the rollout."""


def contradictions(config: Config) -> list[str]:
    """Options that cannot take effect together (P12), each as a sentence that names the fields."""
    return [*_optimizer_errors(config.ppo), *_other_errors(config), *option_errors(config)]


def training_contradictions(config: Config) -> list[str]:
    """The same for what only training needs, such as the number of envs, which another one may be when an agent is
    loaded to act."""
    found = [*_batch_errors(config), *training_option_errors(config)]
    if config.workers > config.n_envs:
        found.append(f"workers = {config.workers} exceeds n_envs = {config.n_envs}: a worker without an env is idle")
    return found


def _batch_errors(config: Config) -> list[str]:
    ppo, rows, batch = config.ppo, config.rollout_rows, config.batch_size
    found = []
    if batch > rows:
        found.append(
            f"ppo.batch_size = {batch} exceeds the rollout: n_steps {ppo.n_steps} x n_envs {config.n_envs} = "
            f"{rows} rows; lower batch_size or raise n_steps"
        )
    if batch == 1 and ppo.normalize_advantage != "none":
        found.append(
            f'ppo.batch_size = 1 with normalize_advantage = "{ppo.normalize_advantage}": a batch of one has no std '
            'to normalize by; raise batch_size or set normalize_advantage = "none"'
        )
    if ppo.normalize_advantage == "env" and ppo.n_steps == 1:
        found.append('normalize_advantage = "env" needs n_steps > 1: one step per env has no std')
    if ppo.normalize_advantage == "env" and config.n_envs == 1:
        found.append('normalize_advantage = "env" needs n_envs > 1: of one env it is "rollout"')
    dead = [name for name in RATIO_FIELDS if changed(ppo, name)]
    if dead and config.is_one_step:
        found.append(
            f"ppo.{', ppo.'.join(dead)} cannot act: with n_epochs = 1 and batch_size = {batch} of {rows} rows an "
            "update is one gradient step, at which every ratio is 1 and KL 0; raise n_epochs or lower batch_size"
        )
    if ppo.micro_batch_size is not None and ppo.micro_batch_size >= batch:
        found.append(
            f"ppo.micro_batch_size = {ppo.micro_batch_size} changes nothing: it must be below batch_size = {batch}"
        )
    return found


def _optimizer_errors(ppo: PPOConfig) -> list[str]:
    found = []
    if ppo.adaptive_lr_kl is not None and parse_schedule(ppo.learning_rate).kind != "constant":
        found.append("ppo.adaptive_lr_kl sets the learning rate itself: give learning_rate as a number, not a schedule")
    if ppo.adaptive_kl_coef and (ppo.target_kl is None or not ppo.kl_coef or isinstance(ppo.kl_coef, str)):
        found.append("ppo.adaptive_kl_coef needs ppo.target_kl, and ppo.kl_coef as a number above 0 to start from")
    if ppo.entropy_floor is not None and not ppo.diagnostics:
        found.append("ppo.entropy_floor needs ppo.diagnostics: without, the entropy is not measured")
    for name, floor in ppo.head_ent_coef_floors.items():
        spec = parse_schedule(ppo.head_ent_coefs.get(name, ppo.ent_coef))
        if spec.kind == "constant" and floor <= spec.values[0]:
            found.append(
                f"ppo.head_ent_coef_floors: {floor:g} for {name!r} is not above the coefficient {spec.values[0]:g}"
            )
    if ppo.optimizer == "adamw" and ppo.weight_decay == 0:
        found.append('ppo.optimizer = "adamw" with weight_decay = 0 is adam: set ppo.weight_decay')
    if ppo.decay_scope == "all" and ppo.weight_decay == 0:
        found.append('ppo.decay_scope = "all" with weight_decay = 0 changes nothing: set ppo.weight_decay')
    return found


def _other_errors(config: Config) -> list[str]:
    ppo, policy = config.ppo, config.policy
    found = []
    for name in ("observation_clip", "observation_statistics"):
        if not ppo.normalize_observations and changed(ppo, name):
            found.append(f"ppo.{name} needs ppo.normalize_observations = true")
    if not ppo.normalize_rewards and changed(ppo, "reward_clip"):
        found.append("ppo.reward_clip needs ppo.normalize_rewards = true")
    found += _run_errors(config) + _memory_errors(config) + critic_errors(config) + risk_errors(config.risk)
    found += market_errors(config.market)
    if ppo.autocast is not None and config.compile is True:
        found.append('compile = true: networks in bfloat16 (ppo.autocast) cannot be compiled; set compile = "auto"')
    if policy.distribution == "beta" and (changed(policy, "log_std_init") or policy.state_dependent_std):
        found.append('policy.distribution = "beta" has no standard deviation: drop log_std_init, state_dependent_std')
    inert = [name for name in ("activation", "layer_norm") if changed(policy, name)]
    if config.memory.output_sizes and "activation" in inert:
        inert.remove("activation")
    if policy.critic_hidden_sizes is not None and policy.shared:
        found.append("policy.critic_hidden_sizes needs policy.shared = false: a shared trunk has one width")
    if policy.encoder:
        found += _own_encoder_errors(policy)
    if inert and not policy.hidden_sizes and not policy.critic_hidden_sizes:
        found.append(f"policy.{', policy.'.join(inert)} needs a hidden layer: policy.hidden_sizes is empty")
    return found


def _run_errors(config: Config) -> list[str]:
    run, found = config.run, []
    if run.patience and not run.eval_every:
        found.append("run.patience counts evaluations: set run.eval_every")
    for name in ("eval_episodes", "eval_env", "eval_env_kwargs"):
        if changed(run, name) and not run.eval_every:
            found.append(f"run.{name} needs run.eval_every")
    if changed(run, "keep_checkpoints") and not run.checkpoint_every:
        found.append("run.keep_checkpoints needs run.checkpoint_every > 0: without it only the last one is kept")
    if not config.workers and changed(config, "worker_timeout"):
        found.append("worker_timeout needs workers > 0: envs in this process have no timeout")
    if config.workers and config.vectorization == "vector_entry_point":
        found.append(
            f'workers = {config.workers} step single envs, and vectorization = "vector_entry_point" steps all envs in '
            "one call in this process: set workers = 0 or drop vectorization"
        )
    return found


def _own_encoder_errors(policy: PolicyConfig) -> list[str]:
    module, _, name = policy.encoder.partition(":")
    if not module or not name:
        return [f"policy.encoder = {policy.encoder!r} must be module:Class"]
    names = ("hidden_sizes", "critic_hidden_sizes", "layer_norm", "cnn_channels", "cnn_features")
    given = [f"policy.{name}" for name in names if changed(policy, name)]
    return [f"{', '.join(given)} cannot act: policy.encoder stands in place of these layers"] if given else []


def _memory_errors(config: Config) -> list[str]:
    memory = config.memory
    if memory.kind == "none":
        given = [name for name in type(memory).model_fields if changed(memory, name)]
        return [f'memory.{", memory.".join(given)} needs memory.kind: "lstm" or "gru"'] if given else []
    found = []
    if memory.shared and not config.policy.shared:
        found.append("memory.shared needs policy.shared: a memory has one input")
    if memory.burn_in and memory.max_length is None:
        found.append("memory.burn_in needs memory.max_length: uncut sequences start where their state is known")
    if memory.max_length is not None:
        found += _cut_errors(memory.max_length, memory.burn_in, config.ppo.n_steps)
    if config.ppo.micro_batch_size is not None:
        found.append("ppo.micro_batch_size does not go with memory: set memory.max_length and a smaller batch_size")
    if config.compile is True and (memory.hidden_size % 8 or config.device != "cpu"):
        found.append('compile = true with memory needs device = "cpu" and a memory.hidden_size that is a multiple of 8')
    return found


def _cut_errors(max_length: int, burn_in: int, n_steps: int) -> list[str]:
    if max_length >= n_steps:
        return [
            f"memory.max_length = {max_length} cuts nothing: a sequence has at most ppo.n_steps = {n_steps} steps; "
            "lower it or leave it out"
        ]
    last_cut = (n_steps - 1) // max_length * max_length
    if burn_in > last_cut:
        return [
            f"memory.burn_in = {burn_in} is more than there is: the last cut of ppo.n_steps = {n_steps} by "
            f"memory.max_length = {max_length} has {last_cut} steps before it"
        ]
    return []
