package failpoint

// Writes of a supervisor to its journal.
const (
	JournalMade      Point = "journal/made"
	JournalForgotten Point = "journal/forgotten"
	GenerationBegun  Point = "journal/history"
	JournalProbed    Point = "journal/probed"
	EpochBegun       Point = "journal/epoch"
	LeaseRenewed     Point = "journal/lease-renewed"
	LeaseReleased    Point = "journal/lease-released"
	EventsConfirmed  Point = "journal/events-confirmed"
	RosterAdopted    Point = "journal/roster"
	RunsChecked      Point = "journal/judged"
	RunAccepted      Point = "journal/run"
	ResultsTaken     Point = "journal/results"
	RunStopped       Point = "journal/stop"
	RunResumed       Point = "journal/resume"
	RunAdvanced      Point = "journal/turn"
	EvaluatorDied    Point = "journal/evaluator-died"
	TokenMade        Point = "journal/token"
	TokenRevoked     Point = "journal/revoke"
	BatchMade        Point = "journal/batch"
	BatchRevoked     Point = "journal/batch-revoked"
	NodeBatched      Point = "journal/batched"
	FloorRaised      Point = "journal/floor"
	NodeDecided      Point = "journal/node"
	HoldDecided      Point = "journal/hold"
	RunsBegun        Point = "journal/runs-begun"
	RunsDecided      Point = "journal/runs"
	NodeAdmitted     Point = "journal/join"
	FenceTaken       Point = "journal/fence"
	NodesAnnounced   Point = "journal/nodes"
	SecretSet        Point = "journal/secret"
	RefusalKept      Point = "journal/refusal"
	SecretRemoved    Point = "journal/secret-removed"
	ReportTaken      Point = "journal/report"
)

// Writes of a node to its journal.
const (
	NodeBegun         Point = "node/incarnation"
	JobStarted        Point = "node/started"
	JobFinished       Point = "node/finished"
	JobRefused        Point = "node/refused"
	AcksKept          Point = "node/acks"
	EpochRaised       Point = "node/epoch"
	CancelsKept       Point = "node/cancels"
	JobsForgotten     Point = "node/forgotten"
	NodeProbed        Point = "node/probed"
	UsageKept         Point = "node/usage"
	UsageAcknowledged Point = "node/usage-told"
)

// Writes of a coordinator to its ledger.
const (
	LedgerProbed           Point = "ledger/probed"
	LedgerRoster           Point = "ledger/roster"
	RegistrationKept       Point = "ledger/registration"
	RegistrationsForgotten Point = "ledger/registrations-forgotten"
	SubmissionKept         Point = "ledger/submission"
	SubmissionDelivered    Point = "ledger/delivered"
	SubmissionRejected     Point = "ledger/rejected"
	EventsStored           Point = "ledger/events"
	RunRestated            Point = "ledger/restated"
	EventsForgotten        Point = "ledger/events-forgotten"
	RunsForgotten          Point = "ledger/runs-forgotten"
	WebhookTold            Point = "ledger/webhook"
)

// Messages to Redis.
const (
	JobSent            Point = "queue/job"
	JobsSent           Point = "queue/jobs"
	JobsWithdrawn      Point = "queue/withdrawn"
	EpochSent          Point = "queue/epoch"
	RosterSent         Point = "queue/roster"
	AcksSent           Point = "queue/acks"
	CancelSent         Point = "queue/cancel"
	RunsAsked          Point = "queue/asked"
	ResultsDone        Point = "queue/results-done"
	BeatsDone          Point = "queue/beats-done"
	AccountsApplied    Point = "queue/accounts"
	GenerationSet      Point = "queue/generation"
	ResultsSent        Point = "queue/results"
	BeatSent           Point = "queue/beat"
	ReportSent         Point = "queue/report"
	HostSent           Point = "queue/host"
	LoadSent           Point = "queue/load"
	LogAsked           Point = "queue/log-asked"
	LogSent            Point = "queue/log"
	WarningsSent       Point = "queue/warnings"
	ReportAcknowledged Point = "queue/report-told"
	ControlsDone       Point = "queue/controls-done"
	TasksMoved         Point = "queue/tasks-moved"
)

// Answers of a coordinator and of a supervisor's node API.
const (
	SubmissionAnswered   Point = "http/submission"
	StatementAnswered    Point = "http/statement"
	RosterAnswered       Point = "http/roster"
	RegistrationAnswered Point = "http/registration"
	ProofAnswered        Point = "node-api/proof"
	WelcomeAnswered      Point = "node-api/welcome"
	RostersAnswered      Point = "node-api/rosters"
	PayloadAnswered      Point = "node-api/payload"
	AccountAnswered      Point = "node-api/account"
	StandingAnswered     Point = "node-api/standing"
	FenceAnswered        Point = "node-api/fence"
	FencedAnswered       Point = "node-api/fenced"
)

// Other places.
const (
	StoreUpgraded Point = "store/upgraded"
	RecordRemoved Point = "file/record-removed"
)

// Places lists the writes and sends at which a test can end the process. A test compares them with the code, and the
// sweep in cmd/writ/internal/test/sweep ends a process at each.
var Places = []Place{
	{Point: StoreUpgraded, Kind: Move, Event: "A store gets its missing tables."},

	{Point: JournalMade, Kind: Commit, Event: "A new journal gets its id."},
	{
		Point: JournalForgotten, Kind: Commit, Functions: 2,
		Event: "Old runs, events and statements are deleted, or unreadable events.",
	},
	{Point: JournalProbed, Kind: Commit, Event: "A supervisor checks that its journal is writable again."},
	{
		Point: GenerationBegun, Kind: Commit, Functions: 2,
		Event: "A journal that was restored from a backup sends its whole state under a new id.",
	},
	{Point: EpochBegun, Kind: Commit, Event: "A supervisor acquires the lease and a new epoch."},
	{Point: LeaseRenewed, Kind: Commit, Event: "A supervisor on a shared journal renews its lease."},
	{Point: LeaseReleased, Kind: Commit, Event: "A supervisor releases its lease at shutdown."},
	{Point: EventsConfirmed, Kind: Commit, Event: "A coordinator has confirmed all events up to a number."},
	{Point: RosterAdopted, Kind: Commit, Event: "A roster comes into force."},
	{Point: RunsChecked, Kind: Commit, Event: "Open runs are recorded as valid under a new roster."},
	{Point: RunAccepted, Kind: Commit, Event: "A submission becomes a run."},
	{Point: ResultsTaken, Kind: Commit, Event: "A run records results, with the calls that follow from them."},
	{Point: RunStopped, Kind: Commit, Event: "A run is cancelled or has expired."},
	{Point: RunResumed, Kind: Commit, Event: "A failed run is resumed."},
	{Point: RunAdvanced, Kind: Commit, Event: "A run has new calls, deliveries or reasons to wait."},
	{Point: EvaluatorDied, Kind: Commit, Event: "The evaluator died while it evaluated a run."},
	{Point: TokenMade, Kind: Commit, Event: "A token admits a node."},
	{Point: TokenRevoked, Kind: Commit, Event: "A token is revoked."},
	{Point: BatchMade, Kind: Commit, Event: "A batch of serial numbers admits nodes."},
	{Point: BatchRevoked, Kind: Commit, Event: "A batch is revoked."},
	{Point: NodeBatched, Kind: Commit, Event: "A node is admitted by a batch, and its serial number is used."},
	{Point: FloorRaised, Kind: Commit, Event: "Certificates that were issued before a time are revoked."},
	{Point: NodeDecided, Kind: Commit, Event: "A decision about a node is recorded."},
	{Point: HoldDecided, Kind: Commit, Event: "A hold is placed or released."},
	{Point: RunsBegun, Kind: Commit, Event: "A decision to cancel or resume several runs has started."},
	{Point: RunsDecided, Kind: Commit, Event: "The outcomes of a decision about several runs are recorded."},
	{Point: NodeAdmitted, Kind: Commit, Event: "A node joins, and its token is spent."},
	{Point: FenceTaken, Kind: Commit, Event: "A removed or lost node has reported which resources it stopped."},
	{Point: NodesAnnounced, Kind: Commit, Event: "The changed states of nodes are announced to coordinators."},
	{Point: RefusalKept, Kind: Commit, Event: "The refusal of a submission is recorded, with the signed answer."},
	{Point: SecretSet, Kind: Commit, Event: "A secret has a new version."},
	{Point: SecretRemoved, Kind: Commit, Event: "Versions of a secret are deleted."},
	{Point: ReportTaken, Kind: Commit, Event: "A node's report about its resources and their usage is recorded."},

	{Point: NodeBegun, Kind: Commit, Event: "A start of the runner gets its incarnation number."},
	{Point: JobStarted, Kind: Commit, Event: "A job is about to start."},
	{Point: JobFinished, Kind: Commit, Event: "The result of a job is recorded."},
	{Point: JobRefused, Kind: Commit, Event: "A job is refused without being started."},
	{Point: AcksKept, Kind: Commit, Event: "The supervisor has confirmed results."},
	{Point: EpochRaised, Kind: Commit, Event: "The epoch is raised, so jobs of earlier supervisors are refused."},
	{Point: CancelsKept, Kind: Commit, Event: "Cancelled runs are recorded, so their jobs are refused."},
	{Point: JobsForgotten, Kind: Commit, Event: "Jobs whose messages can no longer arrive are deleted."},
	{Point: NodeProbed, Kind: Commit, Event: "A node checks that its journal is writable again."},
	{Point: UsageKept, Kind: Commit, Event: "The usage of resources since the previous reading is added."},
	{Point: UsageAcknowledged, Kind: Commit, Event: "The supervisor has confirmed the usage of resources."},

	{Point: LedgerProbed, Kind: Commit, Event: "A coordinator checks that its ledger is writable."},
	{Point: LedgerRoster, Kind: Commit, Event: "A coordinator adopts a roster."},
	{Point: RegistrationKept, Kind: Commit, Event: "A supervisor asks for a place in the roster."},
	{
		Point: RegistrationsForgotten, Kind: Commit,
		Event: "Registrations of supervisors that were not accepted are forgotten.",
	},
	{Point: SubmissionKept, Kind: Commit, Event: "A submission waits for its datacenter."},
	{Point: SubmissionDelivered, Kind: Commit, Event: "A submission is delivered to its datacenter."},
	{Point: SubmissionRejected, Kind: Commit, Event: "A datacenter refused a submission, or it has expired."},
	{Point: EventsStored, Kind: Commit, Event: "A coordinator stores events of a datacenter."},
	{Point: RunRestated, Kind: Commit, Event: "A coordinator stores the answer of a datacenter about a run."},
	{Point: EventsForgotten, Kind: Commit, Event: "Old events are forgotten."},
	{Point: RunsForgotten, Kind: Commit, Event: "Old runs are forgotten."},
	{Point: WebhookTold, Kind: Commit, Event: "A webhook has processed some events."},

	{Point: JobSent, Kind: Send, Event: "A job goes into a node's queue alone."},
	{Point: JobsSent, Kind: Send, Event: "Several jobs go into a node's queue with one script: all or none."},
	{
		Point: JobsWithdrawn, Kind: Send,
		Event: "Jobs of a stopped run, and deliveries that waited too long, are withdrawn.",
	},
	{Point: EpochSent, Kind: Send, Functions: 2, Event: "A supervisor sends the epoch to a node."},
	{Point: RosterSent, Kind: Send, Event: "A supervisor informs a node about a newer roster."},
	{Point: AcksSent, Kind: Send, Event: "A supervisor confirms to a node that its results are on disk."},
	{Point: CancelSent, Kind: Send, Event: "A supervisor informs a node that a run is cancelled."},
	{
		Point: RunsAsked, Kind: Send,
		Event: "A supervisor asks a node for its jobs of some runs, because the journal came from a backup.",
	},
	{Point: ResultsDone, Kind: Send, Event: "Messages with results are removed from the queue."},
	{Point: BeatsDone, Kind: Send, Event: "Heartbeats are removed from the queue."},
	{Point: AccountsApplied, Kind: Send, Event: "Nodes get their accounts at Redis."},
	{Point: GenerationSet, Kind: Send, Event: "Redis is marked, so that a loss of its data is detected."},
	{Point: ResultsSent, Kind: Send, Event: "A node sends results."},
	{Point: BeatSent, Kind: Send, Event: "A node sends a heartbeat."},
	{Point: ReportSent, Kind: Send, Event: "A node reports the state of its resources."},
	{Point: HostSent, Kind: Send, Event: "A node reports facts about its machine."},
	{Point: LoadSent, Kind: Send, Event: "A node reports the load of its resources."},
	{Point: LogAsked, Kind: Send, Event: "A node is asked for lines of its log."},
	{Point: LogSent, Kind: Send, Event: "A node answers with lines of its log."},
	{Point: WarningsSent, Kind: Send, Event: "A node sends the last warnings of its log."},
	{Point: ReportAcknowledged, Kind: Send, Event: "A supervisor confirms to a node that its report is on disk."},
	{Point: ControlsDone, Kind: Send, Event: "Control messages are removed from the queue."},
	{Point: TasksMoved, Kind: Send, Event: "A node requeues or removes tasks that asynq left behind."},

	{Point: "link/challenge", Kind: Send, Event: "A coordinator challenges a supervisor for its identity."},
	{Point: "link/hello", Kind: Send, Event: "A supervisor proves its identity."},
	{Point: "link/welcome", Kind: Send, Event: "A coordinator accepts a supervisor."},
	{Point: "link/event", Kind: Send, Event: "A supervisor sends events."},
	{Point: "link/ack", Kind: Send, Event: "A coordinator has stored events."},
	{Point: "link/req-submit", Kind: Send, Event: "A coordinator forwards a submission."},
	{Point: "link/req-statement", Kind: Send, Event: "A coordinator forwards a statement."},
	{Point: "link/req-roster", Kind: Send, Event: "Rosters are forwarded."},
	{Point: "link/res", Kind: Send, Event: "A request is answered."},

	{Point: SubmissionAnswered, Kind: Answer, Event: "A client learns that its submission is stored."},
	{Point: StatementAnswered, Kind: Answer, Event: "A client receives the answer to its statement."},
	{Point: RosterAnswered, Kind: Answer, Event: "A client learns that its roster is in force."},
	{Point: RegistrationAnswered, Kind: Answer, Event: "A supervisor learns that it is registered."},
	{Point: ProofAnswered, Kind: Answer, Event: "A supervisor proves itself to a node that wants to join."},
	{Point: WelcomeAnswered, Kind: Answer, Event: "A node learns that it is admitted."},
	{Point: RostersAnswered, Kind: Answer, Event: "A node gets rosters."},
	{Point: PayloadAnswered, Kind: Answer, Event: "A node gets a payload that a person signed."},
	{Point: AccountAnswered, Kind: Answer, Event: "A node gets its password for Redis."},
	{Point: StandingAnswered, Kind: Answer, Event: "A node learns whether it is still a member."},
	{Point: FenceAnswered, Kind: Answer, Event: "A removed or lost node learns that it must stop its resources."},
	{Point: FencedAnswered, Kind: Answer, Event: "A removed or lost node learns that its report is stored."},

	{Point: "file/node.key", Kind: File, files: "node.key", Event: "A node's key, made once."},
	{Point: "file/age.key", Kind: File, files: "age.key", Event: "The key for secrets of a node, made once."},
	{
		Point: "file/member.json", Kind: File, files: "member.json",
		Event: "The membership of a node, with the rosters that it trusts.",
	},
	{Point: "file/node.id", Kind: File, files: "node.id", Event: "The owner of the records of drivers."},
	{Point: "file/supervisor.key", Kind: File, files: "supervisor.key", Event: "A supervisor's key, made once."},
	{
		Point: "file/journal.mark", Kind: File, files: "journal.mark",
		Event: "The progress of a supervisor's journal, stored beside its key.",
	},
	{
		Point: "file/supervisor.pub", Kind: File, files: "supervisor.pub",
		Event: "The public half of a supervisor's key, for people.",
	},
	{Point: "file/roster", Kind: File, files: "*.roster", Event: "The roster that a supervisor joined with."},
	{Point: "file/lock", Kind: Move, files: "*.lock", Event: "A process locks a store."},
	{Point: "file/effects.log", Kind: File, files: "effects.log", Event: "A simulated driver has done something."},
	{Point: "file/record", Kind: File, files: "*.json", Event: "The record that a driver needs after a crash."},
	{Point: RecordRemoved, Kind: Move, Event: "A driver deletes the record of a resource."},
}
