package writ

import "time"

// EpochLead limits how far an epoch may be ahead of a clock. A supervisor uses its clock in milliseconds as its epoch,
// or the last epoch plus one. A node that accepted an epoch further ahead would reject every later supervisor.
const EpochLead = 366 * 24 * time.Hour

// CheckEpoch rejects an epoch that is negative or more than EpochLead after `now`.
func CheckEpoch(epoch int64, now time.Time) error {
	if epoch < 0 || epoch > now.Add(EpochLead).UnixMilli() {
		return Errorf(CodeEpochInvalid, "the epoch %d is negative, or more than %d days ahead of the clock", epoch,
			int(EpochLead.Hours()/24)).
			WithHint("compare the clocks of the supervisor and its nodes (`timedatectl`)")
	}
	return nil
}
