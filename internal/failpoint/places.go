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

// Places lists all places. A test compares them with the code, and the sweep in cmd/writ/internal/test/sweep ends a
// process at each.
var Places = []Place{
	{Point: StoreUpgraded, Kind: Move, Says: "A store gets the tables that it lacks."},

	{Point: JournalMade, Kind: Commit, Says: "A new journal gets its id."},
	{Point: JournalForgotten, Kind: Commit, Says: "Old runs, events and statements are forgotten."},
	{Point: JournalProbed, Kind: Commit, Says: "A supervisor looks whether its journal can be written again."},
	{
		Point: GenerationBegun, Kind: Commit, Functions: 2,
		Says: "A journal that came from a backup tells all that stands under a new name.",
	},
	{Point: EpochBegun, Kind: Commit, Says: "A supervisor takes the lease and a new epoch."},
	{Point: LeaseRenewed, Kind: Commit, Says: "A supervisor on a shared journal keeps its lease."},
	{Point: LeaseReleased, Kind: Commit, Says: "A supervisor that is told to end gives its lease back."},
	{Point: EventsConfirmed, Kind: Commit, Says: "A coordinator has all events up to one."},
	{Point: RosterAdopted, Kind: Commit, Says: "A roster comes into force."},
	{Point: RunsChecked, Kind: Commit, Says: "Open runs are good by a roster."},
	{Point: RunAccepted, Kind: Commit, Says: "A submission becomes a run."},
	{Point: ResultsTaken, Kind: Commit, Says: "A run takes results, with the calls that follow from them."},
	{Point: RunStopped, Kind: Commit, Says: "A run is cancelled or has expired."},
	{Point: RunResumed, Kind: Commit, Says: "A failed run is opened again."},
	{Point: RunAdvanced, Kind: Commit, Says: "A run has new calls, deliveries or reasons to wait."},
	{Point: EvaluatorDied, Kind: Commit, Says: "The evaluator died over a run."},
	{Point: TokenMade, Kind: Commit, Says: "A token admits a node."},
	{Point: TokenRevoked, Kind: Commit, Says: "A token is revoked."},
	{Point: BatchMade, Kind: Commit, Says: "A batch of serial numbers admits nodes."},
	{Point: BatchRevoked, Kind: Commit, Says: "A batch is revoked."},
	{Point: NodeBatched, Kind: Commit, Says: "A node is admitted by a batch, which notes its serial number."},
	{Point: FloorRaised, Kind: Commit, Says: "Certificates that were issued before count no more."},
	{Point: NodeDecided, Kind: Commit, Says: "A decision about a node is recorded."},
	{Point: HoldDecided, Kind: Commit, Says: "Something starts no work from now on, or may again."},
	{Point: RunsBegun, Kind: Commit, Says: "Several runs are to be cancelled or resumed."},
	{Point: RunsDecided, Kind: Commit, Says: "Several runs were cancelled or resumed, and the answer says which."},
	{Point: NodeAdmitted, Kind: Commit, Says: "A node joins, and its token is spent."},
	{Point: FenceTaken, Kind: Commit, Says: "A node that is gone has said what it stopped."},
	{Point: NodesAnnounced, Kind: Commit, Says: "Nodes look different from what was told last."},
	{Point: RefusalKept, Kind: Commit, Says: "A text stays refused, with the signed answer."},
	{Point: SecretSet, Kind: Commit, Says: "A secret has a new version."},
	{Point: SecretRemoved, Kind: Commit, Says: "Versions of a secret are gone."},
	{Point: ReportTaken, Kind: Commit, Says: "What a node found about its resources, and what they used."},

	{Point: NodeBegun, Kind: Commit, Says: "A start of the runner has its number."},
	{Point: JobStarted, Kind: Commit, Says: "A job is about to be carried out."},
	{Point: JobFinished, Kind: Commit, Says: "A job was carried out, with this result."},
	{Point: JobRefused, Kind: Commit, Says: "A job is answered without being carried out."},
	{Point: AcksKept, Kind: Commit, Says: "The supervisor has results."},
	{Point: EpochRaised, Kind: Commit, Says: "Jobs of earlier supervisors are refused from now on."},
	{Point: CancelsKept, Kind: Commit, Says: "Jobs of cancelled runs are refused from now on."},
	{Point: JobsForgotten, Kind: Commit, Says: "Jobs that are not asked for any more are forgotten."},
	{Point: NodeProbed, Kind: Commit, Says: "A node looks whether its journal can be written again."},
	{Point: UsageKept, Kind: Commit, Says: "What resources have used since they were looked at."},
	{Point: UsageAcknowledged, Kind: Commit, Says: "The supervisor has what resources used."},

	{Point: LedgerProbed, Kind: Commit, Says: "A coordinator looks whether its ledger can be written."},
	{Point: LedgerRoster, Kind: Commit, Says: "A coordinator adopts a roster."},
	{Point: RegistrationKept, Kind: Commit, Says: "A supervisor asks for a place in the roster."},
	{
		Point: RegistrationsForgotten, Kind: Commit,
		Says: "Registrations of supervisors that were not accepted are forgotten.",
	},
	{Point: SubmissionKept, Kind: Commit, Says: "A submission waits for its datacenter."},
	{Point: SubmissionDelivered, Kind: Commit, Says: "A datacenter has a submission."},
	{Point: SubmissionRejected, Kind: Commit, Says: "A datacenter refused a submission, or it has expired."},
	{Point: EventsStored, Kind: Commit, Says: "A coordinator keeps events of a datacenter."},
	{Point: RunRestated, Kind: Commit, Says: "A datacenter says how a run stands that it has not told of."},
	{Point: EventsForgotten, Kind: Commit, Says: "Old events are forgotten."},
	{Point: RunsForgotten, Kind: Commit, Says: "Old runs are forgotten."},
	{Point: WebhookTold, Kind: Commit, Says: "A webhook is done with some events."},

	{Point: JobSent, Kind: Send, Says: "A job goes into a node's queue."},
	{
		Point: JobsWithdrawn, Kind: Send,
		Says: "Jobs of a stopped run, and deliveries that waited too long, are taken back.",
	},
	{Point: EpochSent, Kind: Send, Functions: 2, Says: "A node is told the epoch."},
	{Point: RosterSent, Kind: Send, Says: "A node is told of a newer roster."},
	{Point: AcksSent, Kind: Send, Says: "A node is told that its results are on disk."},
	{Point: CancelSent, Kind: Send, Says: "A node is told that a run is cancelled."},
	{Point: RunsAsked, Kind: Send, Says: "A node is asked what it has of runs, because the journal came from a backup."},
	{Point: ResultsDone, Kind: Send, Says: "Messages with results are taken off."},
	{Point: BeatsDone, Kind: Send, Says: "Beats are taken off."},
	{Point: AccountsApplied, Kind: Send, Says: "Nodes get their accounts at Redis."},
	{Point: GenerationSet, Kind: Send, Says: "Redis is marked, so that its loss shows."},
	{Point: ResultsSent, Kind: Send, Says: "A node tells results."},
	{Point: BeatSent, Kind: Send, Says: "A node says that it lives."},
	{Point: ReportSent, Kind: Send, Says: "A node tells what it found about its resources."},
	{Point: HostSent, Kind: Send, Says: "A node tells what its machine is."},
	{Point: LogAsked, Kind: Send, Says: "A node is asked for lines of its log."},
	{Point: LogSent, Kind: Send, Says: "A node answers with lines of its log."},
	{Point: WarningsSent, Kind: Send, Says: "A node tells the last warnings of its log."},
	{Point: ReportAcknowledged, Kind: Send, Says: "A node is told that its report is on disk."},
	{Point: ControlsDone, Kind: Send, Says: "What a node was told is taken off."},
	{Point: TasksMoved, Kind: Send, Says: "A node puts back or takes off what asynq left behind."},

	{Point: "link/challenge", Kind: Send, Says: "A coordinator asks a supervisor who it is."},
	{Point: "link/hello", Kind: Send, Says: "A supervisor proves who it is."},
	{Point: "link/welcome", Kind: Send, Says: "A coordinator takes a supervisor in."},
	{Point: "link/event", Kind: Send, Says: "A supervisor tells events."},
	{Point: "link/ack", Kind: Send, Says: "A coordinator has stored events."},
	{Point: "link/req-submit", Kind: Send, Says: "A coordinator hands a submission on."},
	{Point: "link/req-statement", Kind: Send, Says: "A coordinator hands a statement on."},
	{Point: "link/req-roster", Kind: Send, Says: "Rosters are handed on."},
	{Point: "link/res", Kind: Send, Says: "A request is answered."},

	{Point: SubmissionAnswered, Kind: Answer, Says: "A client learns that its submission is kept."},
	{Point: StatementAnswered, Kind: Answer, Says: "A client learns what its statement did."},
	{Point: RosterAnswered, Kind: Answer, Says: "A client learns that its roster is in force."},
	{Point: RegistrationAnswered, Kind: Answer, Says: "A supervisor learns that it is on the list."},
	{Point: ProofAnswered, Kind: Answer, Says: "A supervisor proves itself to a node that wants to join."},
	{Point: WelcomeAnswered, Kind: Answer, Says: "A node learns that it is one."},
	{Point: RostersAnswered, Kind: Answer, Says: "A node gets rosters."},
	{Point: PayloadAnswered, Kind: Answer, Says: "A node gets what a person signed."},
	{Point: AccountAnswered, Kind: Answer, Says: "A node gets its password for Redis."},
	{Point: StandingAnswered, Kind: Answer, Says: "A node learns whether it is still a member."},
	{Point: FenceAnswered, Kind: Answer, Says: "A node that is gone learns that it is to stop what it has."},
	{Point: FencedAnswered, Kind: Answer, Says: "It learns that what it said of that is kept."},

	{Point: "file/node.key", Kind: File, files: "node.key", Says: "A node's key, made once."},
	{Point: "file/age.key", Kind: File, files: "age.key", Says: "The key for secrets of a node, made once."},
	{
		Point: "file/member.json", Kind: File, files: "member.json",
		Says: "What a node belongs to, with the rosters that it believes.",
	},
	{Point: "file/supervisor.key", Kind: File, files: "supervisor.key", Says: "A supervisor's key, made once."},
	{
		Point: "file/journal.mark", Kind: File, files: "journal.mark",
		Says: "How far the journal of a supervisor has come, beside its key.",
	},
	{Point: "file/supervisor.pub", Kind: File, files: "supervisor.pub", Says: "Its public half, for people."},
	{Point: "file/roster", Kind: File, files: "*.roster", Says: "A roster that a supervisor joined by."},
	{Point: "file/lock", Kind: Move, files: "*.lock", Says: "A process takes a store for itself."},
	{Point: "file/effects.log", Kind: File, files: "effects.log", Says: "A simulated driver has done something."},
	{Point: "file/record", Kind: File, files: "*.json", Says: "What a driver must know after a crash."},
	{Point: RecordRemoved, Kind: Move, Says: "A driver forgets what it made."},
}
