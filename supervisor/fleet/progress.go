package fleet

import (
	"time"

	"writ"
)

// progressEvery is the minimum time between two progress texts of a call, because each is a write and an event.
const progressEvery = 10 * time.Second

// progress holds the progress texts of a node's jobs that were passed on last.
type progress map[writ.JobKey]progressText

type progressText struct {
	text string
	at   time.Time // by the monotonic clock
}

// news records the progress of jobs from a beat and forgets other jobs. It returns the texts to pass on now: the first
// text of a job at once, changes at most every progressEvery.
func (p *progress) news(all []writ.Progress, heard time.Time) (news []writ.Progress) {
	next := make(progress, len(all))
	for _, job := range all {
		last, known := (*p)[job.JobKey]
		if !known || job.Text != last.text && heard.Sub(last.at) >= progressEvery {
			last, news = progressText{job.Text, heard}, append(news, job)
		}
		next[job.JobKey] = last
	}
	*p = next
	return news
}
