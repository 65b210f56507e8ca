package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/identity/target"
	"writ/internal/sqldb"
)

// Run is a run with the data that only its datacenter needs.
type Run struct {
	writ.Run
	// Waiting lists the calls that the last pass stopped for: the result of any of them lets the script continue. A
	// pass evaluates the script from its beginning. The list may be from an earlier pass if the rest of the run has not
	// changed since.
	Waiting   []int         `json:"waiting,omitempty"`
	Handled   []int         `json:"handled,omitempty"`   // failed calls whose .err the script has read
	Completed bool          `json:"completed,omitempty"` // the script reached its end
	Stop      *writ.Error   `json:"stop,omitempty"`      // why the run is being ended early, nil otherwise
	StopState writ.RunState `json:"stop_state,omitempty"`
	StopBy    time.Time     `json:"stop_by,omitzero"`  // when the run ends even if calls have not reported
	Logs      int           `json:"logs,omitempty"`    // number of journaled lines
	Crashes   int           `json:"crashes,omitempty"` // consecutive crashes of the evaluator
	// Bytes is the encoded size of the arguments and values of its calls, as of the last write.
	Bytes int `json:"bytes,omitempty"`
	// FirstEnded is a number of first calls that have all ended. A step reads only the few of them that it needs.
	// FirstEndedBytes is their part of Bytes. FirstPart is the last of them that made an image, a network or an unused
	// volume on a node, 0 if none.
	FirstEnded      int `json:"first_ended,omitempty"`
	FirstEndedBytes int `json:"first_ended_bytes,omitempty"`
	FirstPart       int `json:"first_part,omitempty"`
	Resumes         int `json:"resumes,omitempty"` // number of resumes
	// Resumed is the time at which the newest resume was signed. Statements signed before it concern an earlier end of
	// the run.
	Resumed time.Time `json:"resumed,omitzero"`
	// Reopened is set by a resume until the next pass. No calls are sent before that pass.
	Reopened bool `json:"reopened,omitempty"`
	Idle     bool `json:"idle,omitempty"` // a pass would make no progress until something arrives

	// DatacenterName is the name in the roster when the run was accepted. A script may read it, and must always read
	// the same value.
	DatacenterName string `json:"datacenter_name"`

	Roster int `json:"roster,omitempty"` // roster version that accepted the submission

	// From the signed header.
	Engine      string    `json:"engine,omitempty"`      // scripts.Engine that its script needs
	Destructive bool      `json:"destructive,omitempty"` // whether the header has targets
	Targets     []string  `json:"targets,omitempty"`
	Allow       []string  `json:"allow"`
	Uses        []string  `json:"uses,omitempty"`
	Signed      time.Time `json:"signed,omitzero"`  // by the signer's clock
	Expires     time.Time `json:"expires,omitzero"` // its submission may be repeated until then

	number        int64         // number in the journal
	stored        writ.RunState // as in the journal
	storedDue     time.Time
	storedIdle    bool
	storedWaiting []int
}

// WaitsAnew reports whether Waiting differs from the stored list.
func (r *Run) WaitsAnew() bool { return !slices.Equal(r.Waiting, r.storedWaiting) }

// MayDestroy reports whether the signer permitted the script to destroy a resource.
func (r *Run) MayDestroy(kind writ.ResourceKind, name string) bool {
	return r.Destructive && target.Covered(r.Targets, kind, name)
}

// StopsCalls reports whether the run ends before its script, so that nodes must stop its sent calls. The sent calls of a
// run whose script failed may end normally until the deadline, unless a cancel made its end earlier.
func (r *Run) StopsCalls() bool {
	return r.Stop != nil && (r.StopState != writ.RunFailed || !r.StopBy.Equal(r.Deadline))
}

// Due returns when the run must be checked at the latest: at its deadline, or at StopBy while it is being ended.
func (r *Run) Due() time.Time {
	if !r.StopBy.IsZero() {
		return r.StopBy
	}
	return r.Deadline
}

// needed returns the time until which the run must be kept, however early it ends. Until then, its submission may be
// repeated, and the run may be resumed.
func (r *Run) needed() time.Time {
	if replay := r.Expires.Add(ReplayKept); replay.After(r.Deadline) {
		return replay
	}
	return r.Deadline
}

// Move changes the state of the run in memory; PutRun writes it. It returns an error if RunMoves does not allow the
// move.
func (r *Run) Move(to writ.RunState) error {
	if !writ.CanMove(writ.RunMoves, r.State, to) {
		return fmt.Errorf("run %s: no move from %s to %s", r.ID, r.State, to)
	}
	r.State = to
	return nil
}

// AddRun records an accepted submission and its run, with the version of the roster that verified it. It returns false
// without changes if the payload is known or was refused. newest is the newest version in the journal; if it differs
// from roster, the caller must roll back.
func (tx *Tx) AddRun(r *Run, roster int, signed []byte) (added bool, newest int, err error) {
	err = tx.QueryRowContext(tx.ctx, `UPDATE run_counter SET number = number + $1
		WHERE NOT EXISTS (SELECT 1 FROM payloads WHERE digest = $2) AND NOT EXISTS (SELECT 1 FROM refusals WHERE digest = $2)
		RETURNING number, (SELECT COALESCE(MAX(version), 0) FROM rosters)`, longSlots, r.Payload.String()).
		Scan(&r.number, &newest)
	if errors.Is(err, sql.ErrNoRows) {
		newest, err = tx.RosterVersion()
		return false, newest, err
	}
	if err != nil {
		return false, 0, err
	}
	if err := tx.exec(`INSERT INTO payloads (digest, signed, run) VALUES ($1, $2, $3)`, r.Payload.String(), signed,
		string(r.ID)); err != nil {
		return false, 0, err
	}
	body, err := tx.encodeRun(r)
	if err != nil {
		return false, 0, err
	}
	return true, newest,
		tx.exec(`INSERT INTO runs (id, number, state, open, project, deployment, revision, accepted, due, needed, pending, judged, engine, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`, string(r.ID), r.number, string(r.State),
			!r.State.Ended(),
			string(r.Project), r.Deployment, r.Revision, sqldb.Micros(r.Accepted), sqldb.Micros(r.Due()),
			sqldb.Micros(r.needed()), !r.Idle, roster,
			r.Engine, body)
}

// encodeRun returns the body of a run's row. The run must have its number.
func (tx *Tx) encodeRun(r *Run) ([]byte, error) {
	return encode(tx, "runs", r, string(r.ID), r.number)
}

// PutRun stores a changed run. It returns CONFLICT if the stored state has changed since the run was read. It writes
// only changed columns, because each written column updates its indexes.
func (tx *Tx) PutRun(r *Run) error {
	body, err := tx.encodeRun(r)
	if err != nil {
		return err
	}
	query := `UPDATE runs SET body = $3 WHERE id = $1 AND state = $2`
	args := []any{string(r.ID), string(r.stored), body}
	switch {
	case r.State.Ended() || r.stored.Ended() || !r.Due().Equal(r.storedDue):
		query = `UPDATE runs SET body = $3, state = $4, pending = $5, open = $6, due = $7, ended = $8 WHERE id = $1 AND state = $2`
		args = append(args, string(r.State), !r.Idle, !r.State.Ended(), sqldb.Micros(r.Due()), sqldb.Micros(r.Ended))
	case r.State != r.stored || r.Idle != r.storedIdle:
		query = `UPDATE runs SET body = $3, state = $4, pending = $5 WHERE id = $1 AND state = $2`
		args = append(args, string(r.State), !r.Idle)
	}
	was := r.stored
	err = tx.Require(tx.ctx, func() error {
		return writ.Errorf(writ.CodeConflict, "run %s has left the state %s", r.ID, was)
	}, query, args...)
	r.storedWaiting = r.Waiting
	return err
}

// Committed records that the journal has the run in its current form, so that it can be changed and stored again
// without a read. Waiting may be newer than in the journal.
func (r *Run) Committed() { r.stored, r.storedDue, r.storedIdle = r.State, r.Due(), r.Idle }

// Run returns a run, or nil if it is unknown.
func (tx *Tx) Run(id writ.RunID) (*Run, error) {
	var number int64
	var body []byte
	err := tx.QueryRowContext(tx.ctx, `SELECT number, body FROM runs WHERE id = $1`, string(id)).Scan(&number, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		body, err = tx.open("runs", body, string(id), number)
	}
	if err != nil {
		return nil, err
	}
	r, err := decode[Run](body)
	if err != nil {
		return nil, err
	}
	r.number = number
	r.Why, r.Reason = storedReason(r.Why, r.Reason, ""), ""
	r.Committed()
	r.storedWaiting = r.Waiting
	return r, nil
}

// runNumber returns the number of an existing run.
func (tx *Tx) runNumber(id writ.RunID) (number int64, err error) {
	err = tx.QueryRowContext(tx.ctx, `SELECT number FROM runs WHERE id = $1`, string(id)).Scan(&number)
	if err != nil {
		err = fmt.Errorf("find run %s: %w", id, err)
	}
	return number, err
}

// PendingRuns returns the open runs whose next pass may make progress, oldest first. For each deployment, it includes
// only the open run with the lowest revision.
func (tx *Tx) PendingRuns() ([]writ.RunID, error) { return tx.runIDs(pendingRuns) }

const pendingRuns = `SELECT id FROM runs WHERE open AND pending AND (deployment = '' OR NOT EXISTS (
	SELECT 1 FROM runs AS earlier WHERE earlier.open AND earlier.deployment <> '' AND earlier.project = runs.project
	AND earlier.deployment = runs.deployment AND earlier.revision < runs.revision)) ORDER BY accepted, id`

// OpenEngines returns the engines that open runs need.
func (tx *Tx) OpenEngines() ([]string, error) {
	return sqldb.Column[string](tx.QueryContext(tx.ctx, openEngines))
}

const openEngines = `SELECT DISTINCT engine FROM runs WHERE open ORDER BY engine`

// OpenRuns returns the number of open runs by project.
func (tx *Tx) OpenRuns() (map[writ.ProjectID]int, error) {
	return tx.byProject(`SELECT project, COUNT(*) FROM runs WHERE open GROUP BY project`)
}

// byProject returns the numbers that query selects, by project.
func (tx *Tx) byProject(query string, args ...any) (map[writ.ProjectID]int, error) {
	rows, err := tx.QueryContext(tx.ctx, query, args...)
	return sqldb.Map(rows, err, func(row *sql.Rows) (project writ.ProjectID, n int, err error) {
		err = row.Scan(&project, &n)
		return project, n, err
	})
}

// RunsOfEngine returns at most max open runs that need an engine, oldest first.
func (tx *Tx) RunsOfEngine(engine string, max int) ([]writ.RunID, error) {
	return tx.runIDs(runsOfEngine, engine, max)
}

const runsOfEngine = `SELECT id FROM runs WHERE open AND engine = $1 ORDER BY accepted, id LIMIT $2`

// DueRuns returns at most max open runs that are past their deadline or StopBy, the longest overdue first.
func (tx *Tx) DueRuns(now time.Time, max int) ([]writ.RunID, error) {
	return tx.runIDs(dueRuns, sqldb.Micros(now), max)
}

const dueRuns = `SELECT id FROM runs WHERE open AND due <= $1 ORDER BY due, id LIMIT $2`

// RosterCheck is the progress of checking open runs against a roster: a position in the order of UncheckedRuns.
type RosterCheck struct {
	Roster   int
	Accepted time.Time
	Run      writ.RunID
}

// UncheckedRuns returns at most max open runs whose submissions have not yet passed the check against a roster. The
// list begins after a position.
func (tx *Tx) UncheckedRuns(roster int, after RosterCheck, max int) ([]RosterCheck, error) {
	rows, err := tx.QueryContext(tx.ctx, uncheckedRuns, roster, after.Roster, sqldb.Micros(after.Accepted),
		string(after.Run), max)
	return sqldb.List(rows, err, func(row *sql.Rows) (c RosterCheck, err error) {
		var us int64
		err = row.Scan(&c.Roster, &us, &c.Run)
		c.Accepted = sqldb.Time(us)
		return c, err
	})
}

const uncheckedRuns = `SELECT judged, accepted, id FROM runs WHERE open AND judged < $1 AND (judged, accepted, id) > ($2, $3, $4)
	ORDER BY judged, accepted, id LIMIT $5`

// SetChecked records that the submissions of runs passed the check against a roster.
func (tx *Tx) SetChecked(roster int, runs ...writ.RunID) error {
	for _, id := range runs {
		if err := tx.exec(`UPDATE runs SET judged = $1 WHERE id = $2`, roster, string(id)); err != nil {
			return err
		}
	}
	return nil
}

// EarlierRun returns the oldest open run of an earlier revision of r's deployment. It is "" if r may continue.
func (tx *Tx) EarlierRun(r *Run) (writ.RunID, error) {
	if r.Deployment == "" {
		return "", nil
	}
	return tx.firstRun(earlierRun, string(r.Project), r.Deployment, r.Revision)
}

const earlierRun = `SELECT id FROM runs WHERE open AND deployment <> '' AND project = $1 AND deployment = $2
	AND revision < $3 ORDER BY revision LIMIT 1`

func (tx *Tx) runIDs(query string, args ...any) ([]writ.RunID, error) {
	return sqldb.Column[writ.RunID](tx.QueryContext(tx.ctx, query, args...))
}

// firstRun returns the first run that query selects, or "".
func (tx *Tx) firstRun(query string, args ...any) (writ.RunID, error) {
	return sqldb.First[writ.RunID](tx.QueryRowContext(tx.ctx, query, args...))
}

// Payload returns a signed submission, or nil if it is unknown.
func (tx *Tx) Payload(digest writ.Digest) ([]byte, error) {
	return sqldb.First[[]byte](tx.QueryRowContext(tx.ctx, `SELECT signed FROM payloads WHERE digest = $1`,
		digest.String()))
}

// Revision returns the revision of a deployment, 0 before its first run.
func (tx *Tx) Revision(project writ.ProjectID, deployment string) (int, error) {
	var revision int
	var mac []byte
	err := tx.QueryRowContext(tx.ctx, `SELECT revision, mac FROM deployments WHERE project = $1 AND name = $2`,
		string(project), deployment).Scan(&revision, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err == nil {
		err = tx.check("deployments", mac, string(project), deployment, revision)
	}
	return revision, err
}

// CountDeployments returns the number of deployments of a project that have had a run. Their revisions are never
// deleted, because the journal must refuse payloads of earlier revisions.
func (tx *Tx) CountDeployments(project writ.ProjectID) (int, error) {
	return sqldb.First[int](tx.QueryRowContext(tx.ctx, `SELECT COUNT(*) FROM deployments WHERE project = $1`,
		string(project)))
}

// SetRevision records the revision of a deployment.
func (tx *Tx) SetRevision(project writ.ProjectID, deployment string, revision int) error {
	mac, err := tx.code("deployments", string(project), deployment, revision)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO deployments (project, name, revision, mac) VALUES ($1, $2, $3, $4)
		ON CONFLICT (project, name) DO UPDATE SET revision = excluded.revision, mac = excluded.mac`, string(project),
		deployment, revision, mac)
}

// AddLog stores a log line of a script. Invalid UTF-8 and NUL become U+FFFD, because not every database engine stores
// all bytes.
func (tx *Tx) AddLog(line writ.LogLine) error {
	line.Text = strings.ReplaceAll(strings.ToValidUTF8(line.Text, "\uFFFD"), "\x00", "\uFFFD")
	return tx.exec(`INSERT INTO logs (run, ordinal, text, time) VALUES ($1, $2, $3, $4)`,
		string(line.Run), line.Ordinal, line.Text, sqldb.Micros(line.Time))
}

// Logs returns at most max lines of a run after an ordinal.
func (tx *Tx) Logs(run writ.RunID, after, max int) ([]writ.LogLine, error) {
	rows, err := tx.QueryContext(tx.ctx,
		`SELECT ordinal, text, time FROM logs WHERE run = $1 AND ordinal > $2 ORDER BY ordinal LIMIT $3`,
		string(run), after, max)
	return sqldb.List(rows, err, func(row *sql.Rows) (writ.LogLine, error) {
		line := writ.LogLine{Run: run}
		var us int64
		err := row.Scan(&line.Ordinal, &line.Text, &us)
		line.Time = sqldb.Time(us)
		return line, err
	})
}

// RunsOn returns the runs with open calls on a node.
func (tx *Tx) RunsOn(node writ.NodeID) ([]writ.RunID, error) {
	sent, err := tx.runIDs(runsSentTo, string(node))
	if err != nil {
		return nil, err
	}
	placed, err := tx.runIDs(runsPlacedOn, string(node))
	ids := append(sent, placed...)
	slices.Sort(ids)
	return slices.Compact(ids), err
}

const (
	runsSentTo   = `SELECT run FROM calls WHERE open AND state <> 'planned' AND node = $1`
	runsPlacedOn = `SELECT run FROM calls WHERE open AND state = 'planned' AND node <> '' AND node = $1`
)

// NextOf returns the first run of a deployment that waits for earlier runs to end, or "".
func (tx *Tx) NextOf(project writ.ProjectID, deployment string) (writ.RunID, error) {
	return tx.firstRun(nextOf, string(project), deployment)
}

const nextOf = `SELECT id FROM runs WHERE open AND deployment <> '' AND state = 'accepted' AND project = $1 AND deployment = $2
	ORDER BY revision LIMIT 1`
