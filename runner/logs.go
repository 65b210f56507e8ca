package runner

// Log messages that report the progress of a node. The init process of a machine reads them, and member.LogCannotJoin.
const (
	LogServing = "serving"
	LogNoQueue = "queue unavailable; results wait" // with err
	LogQueue   = "queue available again"
)
