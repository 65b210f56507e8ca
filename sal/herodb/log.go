package herodb

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"writ"
	"writ/sal"
)

// logName is the file for the output of a process. Processes open it in append mode, so it can be truncated at any
// time.
const logName = "log"

// A log larger than maxLog bytes is trimmed to its last keptLog bytes.
const (
	maxLog  = 1 << 20
	keptLog = 64 << 10
)

// trimLog trims a log that has grown too large. The end of the log is kept in another file.
func (j *job) trimLog() error {
	info, err := os.Stat(j.in(logName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= maxLog {
		return nil
	}
	var end []byte
	if err == nil {
		end, err = j.tailLog(keptLog)
	}
	if err == nil {
		err = j.write(logName+".old", string(end))
	}
	if err == nil {
		j.step("cut off the log")
		err = os.Truncate(j.in(logName), 0)
	}
	if err != nil {
		return sal.HostError("trim the log of "+j.Resource.String(), err)
	}
	return nil
}

// tailLog reads the last n bytes of the log.
func (j *job) tailLog(n int64) ([]byte, error) {
	f, err := os.Open(j.in(logName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-n), n))
}

// saidLines is the number of log lines in an error. If a database could not be created, its log is deleted, so the
// error then contains up to saidBytes of the log.
const (
	saidLines = 5
	saidBytes = 4 << 10
)

// endedError returns the error about a process that ended instead of serving, with the end of its log.
func (j *job) endedError(in instance) error {
	said, _ := j.tailLog(saidBytes) // without it, the error is still useful
	text := strings.TrimSpace(string(bytes.ToValidUTF8(said, []byte("?"))))
	if in.own.Phase != making {
		lines := strings.Split(text, "\n")
		text = strings.Join(lines[max(0, len(lines)-saidLines):], "\n")
	}
	if j.starved() {
		return writ.Errorf(writ.CodeQuotaExceeded,
			"the kernel killed the process of %s at its memory limit. Its last output:\n%s", j.Resource, text).
			WithHint("give it more memory with a larger memory_mib")
	}
	for _, full := range []string{"No space left on device", "Disk quota exceeded"} {
		if strings.Contains(text, full) {
			return writ.Errorf(writ.CodeDiskFull, "%s cannot start: its disk is full. Its last output:\n%s", j.Resource,
				text).
				WithHint("give it more disk space with a larger size_gib")
		}
	}
	return writ.Errorf(writ.CodeDriverFailed, "the process of %s ended at once. Its last output:\n%s", j.Resource,
		text).
		WithHint("%s", in.seeLog())
}
