package supervisor_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// departure is a node that people remove. Its machine never returns, and finally they sign its loss.
type departure struct {
	node *simNode
	done chan identity.Token // token for the next machine with its name
}

// number returns the id of a node, or "" before it has joined.
func (n *simNode) number() writ.NodeID {
	id, _ := n.id.Load().(writ.NodeID)
	return id
}

// depart makes a node leave permanently. Its machine dies first, or works until the loss is signed. The node may be
// removed before that, and the supervisor may die right after that decision.
func (s *simulation) depart(n *simNode, dies, removed, alone bool, signed time.Duration) {
	if n.leaves || n.number() == "" {
		return
	}
	n.leaves = true
	if dies {
		s.note("machines lost")
		s.kill(n.process)
	}
	d := departure{n, make(chan identity.Token, 1)}
	s.leaving = append(s.leaving, d)
	runner, decides := n.process, s.process
	s.late.Go(func() {
		if removed {
			s.decideNode(n, "remove")
			if alone {
				decides.die()
			}
			time.Sleep(signed)
		} else if dies {
			time.Sleep(signed)
		}
		runner.die()
		s.decideNode(n, identity.DecisionLost)
		token, statement := s.grant(1, time.Hour)
		s.retryUntilDone(func(ctx context.Context) error { return s.decideNow(ctx, statement) })
		d.done <- token
	})
}

// decideNode repeats a decision about a node until it is recorded.
func (s *simulation) decideNode(n *simNode, decision string) {
	s.retryUntilDone(func(ctx context.Context) error {
		sup, j, err := s.api.get()
		if err != nil {
			return err
		}
		var is *journal.Node
		if err := j.Read(ctx, func(tx *journal.Tx) (err error) { is, err = tx.Node(n.number()); return err }); err != nil {
			return err
		}
		if is != nil && (is.Gone || decision == "remove" && is.Admission == writ.AdmissionRemoved) {
			return nil
		}
		statement := s.statement("node/"+string(n.number()), decision)
		if err := s.seeIn(sup, statement); err != nil {
			return err
		}
		_, err = sup.Decide(ctx, s.sign(statement))
		return err
	})
}

// replaceGone starts new machines with the names of the nodes that have left.
func (s *simulation) replaceGone() {
	var rest []departure
	for _, d := range s.leaving {
		select {
		case token := <-d.done:
			s.note("nodes replaced")
			s.kill(d.node.process)
			s.left = append(s.left, d.node)
			i := slices.Index(s.hosts, d.node)
			s.hosts[i] = s.newNode(d.node.name, filepath.Join(filepath.Dir(d.node.dir), fmt.Sprint(d.node.name, "-", len(s.left))), token)
		default:
			rest = append(rest, d)
		}
	}
	s.leaving = rest
}

// replaceAll waits until all departures are complete.
func (s *simulation) replaceAll() {
	for began := time.Now(); len(s.leaving) > 0; s.replaceGone() {
		if time.Since(began) > waitLimit {
			s.t.Fatalf("%s has not left:\n%s", s.leaving[0].node.name, stacks())
		}
		s.until(time.Now().Add(time.Second))
	}
}
