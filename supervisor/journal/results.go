package journal

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"hash"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// Answer is a received result.
type Answer struct {
	Attempt int         `json:"try"`
	Frame   writ.Digest `json:"frame"` // the frame that contained it
}

// Frame is a signed message of a node with results.
type Frame struct {
	Digest writ.Digest
	Signed []byte
	Runs   []writ.RunID // runs of its results
}

// AddResult stores the frame of a result and records it as the answer to an attempt. It returns false if the attempt
// already has a result. PutCall writes the answer; only a result of an earlier attempt, or of an ended call, costs a
// row. A frame with several results is stored once.
func (tx *Tx) AddResult(c *Call, attempt int, frame *Frame) (bool, error) {
	switch {
	case c.Answered != nil && c.Answered.Attempt == attempt:
		return false, nil
	case attempt != c.Attempt || !c.WasOpen():
		added, err := tx.insertResult(c, attempt, frame.Digest)
		if err != nil || !added {
			return false, err
		}
	default:
		if before := c.Answered; before != nil {
			if _, err := tx.insertResult(c, before.Attempt, before.Frame); err != nil {
				return false, err
			}
		}
		c.Answered = &Answer{attempt, frame.Digest}
	}
	return true, tx.addFrame(frame)
}

// insertResult adds the row of a result. It returns false if the row exists.
func (tx *Tx) insertResult(c *Call, attempt int, frame writ.Digest) (bool, error) {
	mac, err := tx.code("results", string(c.Run), c.Seq, attempt, frame.String())
	if err != nil {
		return false, err
	}
	return tx.changed(`INSERT INTO results (run, seq, try, digest, mac) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run, seq, try) DO NOTHING`,
		string(c.Run), c.Seq, attempt, frame.String(), mac)
}

// addFrame stores a frame unless it exists.
func (tx *Tx) addFrame(frame *Frame) error {
	if slices.Contains(tx.frames, frame.Digest) || tx.known.has(frame.Digest) {
		return nil
	}
	tx.frames = append(tx.frames, frame.Digest)
	var runs strings.Builder
	for i, run := range frame.Runs {
		if i > 0 {
			runs.WriteByte(' ')
		}
		runs.WriteString(string(run))
	}
	return tx.exec(`INSERT INTO frames (digest, sealed, runs) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET runs = excluded.runs WHERE frames.runs = ''`, frame.Digest.String(), frame.Signed,
		runs.String())
}

// Results computes SHA-256 over the digests of the frames of a run's results, ordered by seq and attempt.
type Results struct {
	sum  hash.Hash
	late []lateResult // with their own rows, of the calls that were not added yet
}

// lateResult is a result with its own row.
type lateResult struct {
	seq, attempt int
	frame        string
}

// NewResults returns the digest of no results of a run.
func NewResults(tx *Tx, run writ.RunID) (*Results, error) {
	late, err := lateResults(tx, run, 0)
	return &Results{sum: sha256.New(), late: late}, err
}

// Resume continues a digest of an earlier transaction, which has the results of all calls up to seq.
func (r *Results) Resume(tx *Tx, run writ.RunID, seq int) (err error) {
	r.late, err = lateResults(tx, run, seq)
	return err
}

// lateResults returns the results with their own rows, of the calls after seq.
func lateResults(tx *Tx, run writ.RunID, seq int) ([]lateResult, error) {
	rows, err := tx.QueryContext(tx.ctx, `SELECT seq, try, digest, mac FROM results WHERE run = $1 AND seq > $2
		ORDER BY seq, try`, string(run), seq)
	return sqldb.List(rows, err, func(row *sql.Rows) (r lateResult, err error) {
		var mac []byte
		if err = row.Scan(&r.seq, &r.attempt, &r.frame, &mac); err == nil {
			err = tx.check("results", mac, string(run), r.seq, r.attempt, r.frame)
		}
		return r, err
	})
}

// Add adds the results of the next call.
func (r *Results) Add(c *Call) {
	of := 0
	for of < len(r.late) && r.late[of].seq <= c.Seq {
		of++
	}
	all := slices.Clone(r.late[:of])
	r.late = r.late[of:]
	if c.Answered != nil {
		all = append(all, lateResult{c.Seq, c.Answered.Attempt, c.Answered.Frame.String()})
	}
	slices.SortFunc(all, func(a, b lateResult) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.attempt, b.attempt)) })
	for _, one := range all {
		_, _ = r.sum.Write([]byte(one.frame)) // a hash returns no error
	}
}

// Digest returns the digest of the results of a run after all its calls were added.
func (r *Results) Digest() writ.Digest {
	for _, one := range r.late {
		_, _ = r.sum.Write([]byte(one.frame)) // a hash returns no error
	}
	return writ.Digest(r.sum.Sum(nil))
}

// ResultsDigest returns the digest of the results of a run. calls must be all calls of the run.
func (tx *Tx) ResultsDigest(run writ.RunID, calls []*Call) (writ.Digest, error) {
	r, err := NewResults(tx, run)
	if err != nil {
		return writ.Digest{}, err
	}
	inOrder := slices.SortedFunc(slices.Values(calls), func(a, b *Call) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, c := range inOrder {
		r.Add(c)
	}
	return r.Digest(), nil
}

// Delivery is a job that was sent to a node.
type Delivery struct {
	Attempt  int         `json:"try"`
	Delivery int         `json:"delivery"`
	Node     writ.NodeID `json:"node"`
	Job      writ.Digest `json:"job"`
	Epoch    int64       `json:"epoch"`
	At       time.Time   `json:"at"`
}

// AddDelivery records that the job with this digest is sent to a node as the call's current delivery. PutCall writes
// the new delivery. Only a superseded delivery, which is rare, costs a row.
func (tx *Tx) AddDelivery(c *Call, digest writ.Digest, epoch int64) error {
	before := c.Sent
	c.Sent = &Delivery{c.Attempt, c.Delivery, c.Node, digest, epoch, tx.Now}
	if before == nil {
		return nil
	}
	row := []any{
		string(c.Run), c.Seq, before.Attempt, before.Delivery, string(before.Node), before.Job.String(), before.Epoch,
		sqldb.Micros(before.At),
	}
	mac, err := tx.code("deliveries", row...)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO deliveries (run, seq, try, delivery, node, digest, epoch, sent, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		append(row, mac)...)
}

// WasSent reports whether a job with this digest was sent to the node in this attempt.
func (tx *Tx) WasSent(c *Call, attempt int, node writ.NodeID, digest writ.Digest) (bool, error) {
	if c.LastSent(attempt, node, digest) {
		return true, nil
	}
	rows, err := tx.someRows(4, `SELECT delivery, epoch, sent, mac FROM deliveries
		WHERE run = $1 AND seq = $2 AND try = $3 AND node = $4 AND digest = $5`,
		string(c.Run), c.Seq, attempt, string(node), digest.String())
	for _, row := range rows {
		mac, _ := row[3].([]byte)
		err := tx.check("deliveries", mac, string(c.Run), c.Seq, attempt, row[0], string(node), digest.String(), row[1],
			row[2])
		if !isForged(err) {
			return err == nil, err
		}
	}
	return false, err
}

// LastSent reports whether the newest delivery was a job with this digest, sent to the node in this attempt.
func (c *Call) LastSent(attempt int, node writ.NodeID, digest writ.Digest) bool {
	return c.Sent != nil && c.Sent.Attempt == attempt && c.Sent.Node == node && c.Sent.Job == digest
}
