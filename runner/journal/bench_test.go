package journal

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"writ"
)

// BenchmarkJobs measures the journal's work for a job, from start to acknowledgement, with 50 concurrent runs of ten
// calls.
func BenchmarkJobs(b *testing.B) {
	j, err := Open(b.Context(), filepath.Join(b.TempDir(), "journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	runs := make(chan int)
	var working sync.WaitGroup
	for range 50 {
		working.Go(func() {
			for n := range runs {
				job := &writ.Job{
					JobKey: writ.JobKey{Run: writ.RunIDOf(writ.DigestOf(fmt.Append(nil, n))), Attempt: 1}, Operation: "node.ping", Delivery: 1,
					EndBy: time.Now().Add(time.Minute).UnixMilli(), Deadline: time.Now().Add(time.Hour).UnixMilli(),
				}
				for job.Seq = 1; job.Seq <= 10; job.Seq++ {
					if past, err := j.Start(b.Context(), job, writ.Digest{}, 1, false); err != nil || past != nil {
						b.Error(past, err)
					}
					result := &writ.Result{JobKey: job.JobKey, Node: "0192f6c2-0000-7000-8000-000000000003", Driver: "host", Started: 1, Ended: 2,
						Boot: "0192f6c2-0000-7000-8000-000000000004", Incarnation: 1}
					if err := j.Finish(b.Context(), job, result, false); err != nil {
						b.Error(err)
					}
					if err := j.Acknowledge(b.Context(), job.JobKey); err != nil {
						b.Error(err)
					}
				}
			}
		})
	}
	for n := range b.N {
		runs <- n
	}
	close(runs)
	working.Wait()
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
