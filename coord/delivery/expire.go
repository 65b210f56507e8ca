package delivery

import (
	"context"
	"time"

	"writ"
)

// expireAtOnce is the number of submissions that are read from the ledger at a time.
const expireAtOnce = 100

// Expire ends submissions that waited too long. It skips a submission that is being delivered: the datacenter decides
// about it.
func (s *Service) Expire(ctx context.Context) {
	for more := true; more; {
		overdue, err := s.Ledger.Overdue(ctx, s.Now(), expireAtOnce)
		if err != nil {
			if ctx.Err() == nil {
				s.Log.WarnContext(ctx, "find expired submissions", "err", err)
			}
			return
		}
		ended := 0
		for _, waiting := range overdue {
			release, free := s.outbox.hold(waiting.Payload)
			if !free {
				continue
			}
			if s.expireOne(ctx, waiting) {
				ended++
			}
			release()
		}
		more = len(overdue) == expireAtOnce && ended > 0
	}
}

// expireOne reports whether the submission no longer waits.
func (s *Service) expireOne(ctx context.Context, waiting writ.Submission) bool {
	log := s.Log.With("run", waiting.Run, "dc", waiting.Datacenter)
	reason := writ.Errorf(writ.CodeExpired, "it could be accepted until %s, and its datacenter did not accept it before",
		waiting.Expires.Format(time.RFC3339))
	if trouble := s.outbox.trouble(waiting.Payload); trouble != nil {
		reason = writ.Errorf(writ.CodeExpired, "it could be accepted until %s; the last answer of its datacenter: %s",
			waiting.Expires.Format(time.RFC3339), trouble.Message)
	}
	err := s.Ledger.Reject(ctx, waiting.Payload, writ.SubmissionExpired,
		reason.WithHint("sign it again, with a longer --expires if the datacenter may be away for long"))
	switch {
	case err == nil:
		s.submissions.WithLabelValues("expired").Inc()
		log.InfoContext(ctx, "submission expired", "expires", waiting.Expires)
		s.outbox.forget(waiting.Payload)
		s.News.Wake()
		return true
	case writ.CodeOf(err) == writ.CodeConflict:
		return true // its datacenter decided in the meantime
	default:
		if ctx.Err() == nil {
			log.WarnContext(ctx, "expire submission", "err", err)
		}
		return false
	}
}
