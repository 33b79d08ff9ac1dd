package recovery

// The words of the tables in docs/design.md.

var knownWords = [...]string{"nothing", "begun", "begun and tried", "safe", "ended", "ended and begun", "replaced", "replaced and begun", "given up"}

func (k Known) String() string { return knownWords[k] }

var frameWords = [...]string{"sound", "unsound", "part of one that waits"}

func (f Frame) String() string { return frameWords[f] }

var frameActionWords = [...]string{"keep", "keep, end as spooled", "keep, end as spooled, name", "keep, begin, end as spooled, name", "leave", "leave, note", "leave, end the batch the same"}

func (a FrameAction) String() string { return frameActionWords[a] }

var kindWords = [...]string{"begun", "lost from the spool", "lost, ranges unknown"}

func (k Kind) String() string { return kindWords[k] }

var settingsWords = [...]string{"same", "changed", "not configured", "cluster not served"}

func (s Settings) String() string { return settingsWords[s] }

var findingWords = [...]string{"not read yet", "here", "here, other bytes", "in part", "gone", "not now"}

func (f Finding) String() string { return findingWords[f] }

var actionWords = [...]string{"look", "wait", "resend", "resend, new id", "resend what is left", "restore", "restore, new id", "restore what is left", "replace", "replace what is left", "end, source gone"}

func (a Action) String() string { return actionWords[a] }
