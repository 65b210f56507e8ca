package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/runner"
	"writ/supervisor/nodes"
)

// destroy returns a job that deletes a volume under a payload.
func (s *fixture) destroy(seq int, payload writ.Digest, change func(j *writ.Job)) *writ.Job {
	return s.job(seq, "volume.delete", "data", func(j *writ.Job) {
		j.Payload, j.Run = payload, writ.RunIDOf(payload)
		if change != nil {
			change(j)
		}
	})
}

// Promise: Signatures and rosters: Data is destroyed only under a person's signature, and only the data that the
// signed text names.
// How: The node fetches and verifies the signed text, which lists kinds and names or name prefixes.
// Also: TestTargetsCoverOnlyTheirNames, TestRunDestroysOnlyNamedTargets
//
// Promise: Load and attackers: Use of a stolen supervisor key appears in the log of the attacked node.
// How: The node refuses operations without a person's signature and logs a warning with the code.
func TestOnlyASignatureDestroys(t *testing.T) {
	for name, tt := range map[string]struct {
		submit func(s *fixture) writ.Digest
		change func(s *fixture, j *writ.Job)
		want   writ.Code
	}{
		"signed for": {submit: func(s *fixture) writ.Digest { return s.submission(s.alice, nil) }},
		"signed without targets": {
			submit: func(s *fixture) writ.Digest {
				return s.submission(s.alice, func(p *identity.Payload) { p.Targets = nil })
			},
			want: writ.CodeDestructiveDenied,
		},
		"signed for others to be destroyed": {
			submit: func(s *fixture) writ.Digest {
				return s.submission(s.alice, func(p *identity.Payload) { p.Targets = []string{"volume/data-*", "herodb/data"} })
			},
			want: writ.CodeDestructiveDenied,
		},
		"signed for a prefix of the name": {
			submit: func(s *fixture) writ.Digest {
				return s.submission(s.alice, func(p *identity.Payload) { p.Targets = []string{"volume/dat*"} })
			},
		},
		"beyond its calls": {
			submit: func(s *fixture) writ.Digest { return s.submission(s.alice, nil) },
			change: func(_ *fixture, j *writ.Job) { j.Seq = 11 },
			want:   writ.CodeOperationNotAllowed,
		},
		"allowed for other operations": {
			submit: func(s *fixture) writ.Digest {
				return s.submission(s.alice, func(p *identity.Payload) { p.Allow = []string{"volume.create"} })
			},
			want: writ.CodeOperationNotAllowed,
		},
		"signer without the flag": {
			submit: func(s *fixture) writ.Digest { return s.submission(s.bob, nil) },
			want:   writ.CodeDestructiveDenied,
		},
		"signer revoked since": {
			submit: func(s *fixture) writ.Digest {
				digest := s.submission(s.alice, nil)
				s.amend(func(r *identity.Roster) {
					r.Principals[1].State, r.Operators, r.Principals[0].State = identity.Active, []string{"bob"}, identity.Revoked
				})
				return digest
			},
			want: writ.CodeSignerRevoked,
		},
		"signed by an unknown key": {
			submit: func(s *fixture) writ.Digest { return s.submission(sshsig.NewSigner(newKey()), nil) },
			want:   writ.CodeSignerUnknown,
		},
		"for another project": {
			submit: func(s *fixture) writ.Digest { return s.submission(s.alice, nil) },
			change: func(_ *fixture, j *writ.Job) { j.Project = labProject },
			want:   writ.CodeRoleMissing,
		},
		"in the name of another run": {
			submit: func(s *fixture) writ.Digest { return s.submission(s.alice, nil) },
			change: func(_ *fixture, j *writ.Job) { j.Run = writ.RunIDOf(writ.DigestOf([]byte("another"))) },
			want:   writ.CodeOperationNotAllowed,
		},
		"accepted after it expired": {
			submit: func(s *fixture) writ.Digest {
				digest := s.submission(s.alice, func(p *identity.Payload) { p.Expires = p.Created.Add(10 * time.Second) })
				quiet(140 * time.Second) // past the tolerance
				return digest
			},
			want: writ.CodeExpired,
		},
		"after the run's deadline": {
			submit: func(s *fixture) writ.Digest {
				digest := s.submission(s.alice, func(p *identity.Payload) { p.Deadline = 10 * time.Second })
				quiet(130 * time.Second)
				return digest
			},
			change: func(_ *fixture, j *writ.Job) { j.Accepted = time.Now().Add(-130 * time.Second).UnixMilli() },
			want:   writ.CodeRunExpired,
		},
		"an unknown payload": {
			submit: func(*fixture) writ.Digest { return writ.DigestOf([]byte("nothing")) },
			want:   writ.CodeNotFound,
		},
		"another payload than asked for": {
			submit: func(s *fixture) writ.Digest {
				asked := s.submission(s.alice, func(p *identity.Payload) { p.Targets = nil })
				s.payloads[asked] = s.payloads[s.submission(s.alice, nil)]
				return asked
			},
			want: writ.CodeSignatureInvalid,
		},
		"a payload changed on its way": {
			submit: func(s *fixture) writ.Digest {
				digest := s.submission(s.alice, nil)
				s.payloads[digest][30] ^= 1
				return digest
			},
			want: writ.CodeSignatureInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := newFixture(t), new(testenv.Log)
				n := s.fresh(func(r *runner.Runner) { r.Log = log.Logger() })
				volume := n.job(100, "volume.create", "data", nil)
				n.push(volume)
				n.await(volume.JobKey)
				job := s.destroy(1, tt.submit(s), nil)
				if tt.change != nil {
					tt.change(s, job)
				}
				if len(s.rosters) > 1 {
					n.tell(writ.Control{Roster: 2})
					quiet(2 * time.Second)
				}
				n.push(job)
				got := n.await(job.JobKey)
				if codeOf(got) != tt.want {
					t.Errorf("result = %+v, want %q", got.Error, tt.want)
				}
				if acted := n.host.count(job.JobKey.String()) == 1; acted != (tt.want == "") {
					t.Errorf("it was destroyed: %v", acted)
				}
				// A stolen supervisor key becomes visible by the refusals on the node.
				if warned := log.Lines("level=WARN") == 1 && log.Lines("code="+string(tt.want)) == 1; warned != (tt.want != "") {
					t.Errorf("that it was refused is logged: %v\n%s", warned, log)
				}
			})
		})
	}
}

func TestOnlySignedImagesAreUsed(t *testing.T) {
	const signed = "docker.io/library/nginx:1.27@sha256:abababababababababababababababababababababababababababababababab"
	for image, want := range map[string]writ.Code{
		signed:                                 "",
		strings.Replace(signed, "ab", "cd", 1): writ.CodeOperationNotAllowed,
		strings.Replace(signed, "docker.io", "ghcr.io", 1): writ.CodeOperationNotAllowed,
		"docker.io/library/nginx:1.27":                     writ.CodeOperationNotAllowed,
		"nginx:1.27":                                       writ.CodeOperationNotAllowed,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFixture(t)
			n := s.fresh(nil)
			payload := s.submission(s.alice, func(p *identity.Payload) {
				p.Allow, p.Images = []string{"container.create"}, []string{signed}
			})
			job := s.job(1, "container.create", "web", func(j *writ.Job) {
				j.Payload, j.Run, j.Args = payload, writ.RunIDOf(payload), map[string]any{"image": image, "cpus": int64(1), "memory_mib": int64(64), "restart": "always"}
			})
			n.push(job)
			if got := n.await(job.JobKey); codeOf(got) != want {
				t.Errorf("%s: %+v, want %q", image, got.Error, want)
			}
		})
	}
}

func TestUnsignedJobsLogFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 1000
		s, log := newFixture(t), new(testenv.Log)
		n := s.fresh(func(r *runner.Runner) { r.Log = log.Logger() })
		payload := s.submission(s.alice, func(p *identity.Payload) { p.Targets, p.MaxCalls = nil, jobs })
		began := time.Now()
		for seq := range jobs {
			job := s.destroy(seq+1, payload, nil)
			n.push(job)
			if got := n.await(job.JobKey); codeOf(got) != writ.CodeDestructiveDenied {
				t.Fatalf("result = %+v", got.Error)
			}
		}
		most := 1 + int(time.Since(began)/(10*time.Second))
		if lines := log.Lines("without a person's signature"); lines == 0 || lines > most {
			t.Errorf("%d jobs make %d lines, at most %d are right", jobs, lines, most)
		}
	})
}

func TestDestructionWaitsForNodeAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		quiet(time.Second)
		s.closeAPI(3)
		soon := s.destroy(1, s.submission(s.alice, nil), nil)
		n.push(soon)
		if got := n.await(soon.JobKey); got.Error != nil {
			t.Errorf("result = %+v, want success once it is open", got.Error)
		}
		s.closeAPI(1000)
		never := s.destroy(2, s.submission(s.alice, nil), nil)
		n.push(never)
		if got := n.await(never.JobKey); codeOf(got) != writ.CodeUnreachable || !got.Error.Retryable() {
			t.Errorf("result = %+v, want a retryable %s", got.Error, writ.CodeUnreachable)
		}
		s.closeAPI(0)
	})
}

// A payload is verified once, and again when the roster changes. The time is checked each time.
func TestCachedPermitExpires(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(n *node)
		change    func(j *writ.Job)
		want      writ.Code
	}{
		"nothing happens": {meanwhile: func(*node) {}},
		"the right is taken": {
			meanwhile: func(n *node) {
				n.amend(func(r *identity.Roster) {
					r.Bindings = slices.DeleteFunc(r.Bindings, func(b identity.Binding) bool { return b.Role == identity.Deployer })
				})
				n.tell(writ.Control{Roster: 2})
				quiet(2 * time.Second)
			},
			want: writ.CodeRoleMissing,
		},
		"the deadline passes": {meanwhile: func(*node) { quiet(200 * time.Second) }, want: writ.CodeRunExpired},
		"the supervisor reports a later acceptance of the run": {
			meanwhile: func(*node) { quiet(200 * time.Second) },
			change:    func(j *writ.Job) { j.Accepted = time.Now().UnixMilli() },
			want:      writ.CodeExpired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				n := s.fresh(nil)
				digest := s.submission(s.alice, func(p *identity.Payload) {
					p.Expires, p.Deadline = p.Created.Add(time.Minute), 2*time.Minute
				})
				first := s.destroy(1, digest, nil)
				n.push(first)
				if got := n.await(first.JobKey); got.Error != nil {
					t.Fatalf("result = %+v", got.Error)
				}
				asked := s.asked
				tt.meanwhile(n)
				second := s.destroy(2, digest, func(j *writ.Job) { j.Accepted = first.Accepted })
				if tt.change != nil {
					tt.change(second)
				}
				n.push(second)
				if got := n.await(second.JobKey); codeOf(got) != tt.want {
					t.Errorf("result = %+v, want %q", got.Error, tt.want)
				}
				if tt.want == "" && s.asked != asked {
					t.Error("the payload was fetched again")
				}
			})
		})
	}
}

// If the signer knows a newer roster than the node, the node must fetch it first, even if that roster is the first one
// with the signer's key.
func TestNodeFetchesRosterNamedByPayload(t *testing.T) {
	for name, key := range map[string]sshsig.Signer{"the same key": nil, "a new key": sshsig.NewSigner(newKey())} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				n := s.fresh(nil)
				quiet(5 * time.Second)
				signer := s.alice
				s.amend(func(r *identity.Roster) {
					if key != nil {
						signer = key
						r.Principals[0].Keys = append(r.Principals[0].Keys, identity.PrincipalKey{Key: key.PublicKey(), State: identity.Active})
					}
				})
				job := s.destroy(1, s.submission(signer, nil), nil)
				n.push(job)
				if got := n.await(job.JobKey); got.Error != nil || n.member.Roster().Version != 2 {
					t.Errorf("result = %+v with roster %d, want success with roster 2", got.Error, n.member.Roster().Version)
				}
			})
		})
	}
}

// hangingAPI never returns a payload.
type hangingAPI struct{ nodes.Backend }

func (hangingAPI) Payload(ctx context.Context, _ writ.Digest) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestHangingNodeAPIBlocksNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(func(r *runner.Runner) { r.API = hangingAPI{s} })
		job := s.destroy(1, s.submission(s.alice, nil), nil)
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeUnreachable {
			t.Errorf("result = %+v, want %s by its start-by", got.Error, writ.CodeUnreachable)
		}
		job.Attempt = 2
		job.StartBy, job.EndBy = time.Now().Add(time.Minute).UnixMilli(), time.Now().Add(2*time.Minute).UnixMilli()
		n.push(job)
		quiet(time.Second)
		begin := time.Now()
		n.stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("stopping took %s with a job that had not begun", took)
		}
		if got := n.got(job.JobKey); len(got) != 0 {
			t.Errorf("the job was answered with %+v", got[0].Error)
		}
	})
}

// Each beat has the reason why a job waits, which people see as the reason of its call.
//
// Promise: Operation: A call that waits because its node cannot reach the node API shows the reason and its start
// time.
// How: The beats of the node contain the reason of each waiting job.
func TestJobReportsMissingSignedScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		digest := s.submission(s.alice, nil)
		n.push(n.job(1, "volume.create", "data", nil))
		quiet(5 * time.Second)
		s.closeAPI(1 << 30)
		n.push(n.job(2, "volume.delete", "data", func(j *writ.Job) { j.Payload, j.Run = digest, writ.RunIDOf(digest) }))
		quiet(5 * time.Second)
		beat := n.lastBeat()
		if len(beat.Progress) != 1 || !testenv.Mentions(beat.Progress[0].Text, "n1", "node API") {
			t.Errorf("progress in the beat = %+v", beat.Progress)
		}
		s.closeAPI(0)
		quiet(10 * time.Second)
		if beat := n.lastBeat(); len(beat.Progress)+len(beat.Active) != 0 {
			t.Errorf("when the node API is back: %+v, %v", beat.Progress, beat.Active)
		}
	})
}
