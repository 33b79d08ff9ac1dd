package telemetry

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// kind is how a metric behaves.
type kind string

const (
	counter   kind = "counter" // only grows while the agent runs
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// metric is all that is known of one metric of the agent: from it the metric itself, the
// reference, the alert rules and the dashboard are made.
type metric struct {
	name   string // without the name of the agent before it
	kind   kind
	labels []string
	help   string
	absent string // when it is not shown; empty: it always is
	panel  panel
	alerts []alert
}

// panel is where a dashboard shows a metric, a line for each combination of its labels. Metrics of one
// title share a panel.
type panel struct {
	row, title string
	unit       string // as Grafana calls it
}

// alert is a rule that fires when a person should look at something.
type alert struct {
	name     string
	expr     string // M stands for the metric
	wait     string // for how long it has to be so; empty: at once
	severity string // critical: records are lost, or nothing moves; else warning
	means    string // what has happened; may name labels as Prometheus templates do
	do       string // what to do about it
}

// perSecond is the unit of counted records: Grafana's rps is of reads, and says so.
const perSecond = "suffix: records/s"

const (
	critical = "critical"
	warning  = "warning"
)

// The rows of the dashboard.
const (
	rowFlow    = "Flow"
	rowHealth  = "Health"
	rowService = "Service"
	rowBuffers = "Spool and quarantine"
	rowFiles   = "Files"
)

var (
	byInput = []string{"input"}
	byTable = []string{"database", "table"}
)

// grows is the expression of an alert on a counter that should rest.
const grows = "increase(M[10m]) > 0"

// catalog is every metric of the agent but those of the Go runtime and the process.
var catalog = []*metric{
	// What becomes of records.
	{"records_read_total", counter, byInput, "Records read from files, including those that are filtered or quarantined at once.", "",
		panel{rowFlow, "Records read", perSecond}, nil},
	{"bytes_read_total", counter, byInput, "Bytes read from files.", "",
		panel{rowFlow, "Bytes read", "Bps"}, nil},
	{"records_restored_total", counter, byInput, "Records that this run took over from the spool or from batches of an earlier run.", "",
		panel{rowFlow, "Records restored", perSecond}, nil},
	{"records_accepted_total", counter, byInput, "Records that the service accepted.", "",
		panel{rowFlow, "Records accepted", perSecond}, []alert{
			{"KustoAgentNothingAccepted", "rate(M[15m]) == 0 and kusto_agent_records_pending > 0", "15m", critical,
				"Records of input {{ $labels.input }} were read and none has been accepted for half an hour.",
				"kusto-agent status shows the route or cluster that does not accept them, the reason and the fix."}}},
	{"records_pending", gauge, byInput, "Records read that are not yet accepted, quarantined, dropped, filtered or spooled.", "",
		panel{rowFlow, "Records pending", "short"}, nil},
	{"records_quarantined_total", counter, []string{"input", "reason"}, "Records in quarantine, with the reason.", "",
		panel{rowHealth, "Records quarantined", perSecond}, []alert{
			{"KustoAgentRecordsQuarantined", grows, "", warning,
				"Records of input {{ $labels.input }} were put into quarantine: {{ $labels.reason }}.",
				"kusto-agent quarantine ls shows them, with the reason and their position in the file."}}},
	{"records_dropped_total", counter, []string{"input", "reason"}, "Records dropped, with the reason.", "",
		panel{rowHealth, "Records dropped", perSecond}, []alert{
			{"KustoAgentRecordsDropped", grows, "", critical,
				"Records of input {{ $labels.input }} were dropped: {{ $labels.reason }}.",
				"The log says which. spool_full: raise spool.max_size; spool_age: raise spool.max_age; source_gone: a file was deleted before it was delivered; removed: somebody ran spool rm or quarantine rm."}}},
	{"records_filtered_total", counter, []string{"input", "reason"}, "Records left out on purpose, such as blank lines and headers, with the reason.", "",
		panel{rowFlow, "Records filtered", perSecond}, nil},
	{"records_changed_total", counter, []string{"input", "rule"}, "Records of which redact, rename, remove or add changed something, by the rule: its name, or rename, remove or add.", "before a rule changed the first",
		panel{rowFlow, "Records changed", perSecond}, nil},
	{"records_invalid_utf8_total", counter, byInput, "Records that were sent although they are not valid UTF-8.", "",
		panel{rowFiles, "Odd records", perSecond}, nil},
	{"records_unparsed_total", counter, byInput, "Records that parse could not read, and that were sent unparsed.", "",
		panel{rowFiles, "Odd records", perSecond}, nil},
	{"table_records_total", counter, []string{"database", "table", "outcome"}, "Records accepted, quarantined or dropped, by their table, for all clusters together.", "",
		panel{rowFlow, "Records by table", perSecond}, nil},
	{"table_bytes_total", counter, []string{"database", "table", "outcome"}, "Bytes of these records: in their payloads before gzip, or in their files if they were in no payload; 0 if they cannot be read any more.", "",
		panel{rowFlow, "Bytes by table", "Bps"}, nil},
	{"end_to_end_seconds", histogram, byTable, "Seconds from reading the oldest record of a payload to the acceptance of the payload.", "before the first acceptance",
		panel{rowFlow, "From reading to acceptance", "s"}, []alert{
			{"KustoAgentSlow", "histogram_quantile(0.99, sum by (job, instance, database, table, le) (rate(M_bucket[10m]))) > 60", "15m", warning,
				"Records for {{ $labels.database }}.{{ $labels.table }} take more than a minute from the file to the service.",
				"kusto-agent status shows whether the service throttles or fails. If nothing fails, records arrive faster than send.concurrency or send.rate_limit allow."}}},
	{"input_info", gauge, []string{"input", "cluster", "database", "table", "format", "mapping"}, "Cluster, database, table, format and mapping of an input, as labels. Always 1.", "", panel{}, nil},

	// The service.
	{"requests_total", counter, []string{"outcome", "code"}, "Ingest requests by verdict and HTTP status of the answer.", "",
		panel{rowService, "Requests", "reqps"}, []alert{
			{"KustoAgentRequestsRefused", `sum by (job, instance) (rate(M{outcome="refused"}[10m])) / sum by (job, instance) (rate(M[10m])) > 0.5`, "15m", warning,
				"More than half of the requests are answered with an error.",
				"kusto-agent status shows the error of the service. 429: the cluster is too small for the load, or send.concurrency is too high."}}},
	{"request_duration_seconds", histogram, nil, "Seconds from the start of an ingest request to its answer or its time-out.", "",
		panel{rowService, "Duration of requests", "s"}, nil},
	{"retries_total", counter, nil, "Ingest requests that repeat an earlier request for the same payload.", "",
		panel{rowService, "Retries and unknown outcomes", "reqps"}, nil},
	{"unknown_outcomes_total", counter, nil, "Ingest requests with an unknown outcome; only these can store records twice.", "",
		panel{rowService, "Retries and unknown outcomes", "reqps"}, []alert{
			{"KustoAgentUnknownOutcomes", grows, "", warning,
				"Requests ended without a trustworthy answer: their records may be stored twice.",
				"Check the path between the agent and the service: proxies, load balancers, send.timeout."}}},
	{"unknown_records_total", counter, nil, "Records in ingest requests with an unknown outcome.", "",
		panel{rowService, "Records with unknown outcome", perSecond}, nil},
	{"batch_raw_bytes_total", counter, nil, "Bytes of sealed payloads before gzip.", "",
		panel{rowService, "Bytes of payloads", "Bps"}, nil},
	{"batch_gzip_bytes_total", counter, nil, "Bytes of sealed payloads after gzip.", "",
		panel{rowService, "Bytes of payloads", "Bps"}, nil},
	{"gzip_encoder_faults_total", counter, nil, "Faults of the gzip encoder, found before the payload was sent; after the first one klauspost compresses.", "",
		panel{rowHealth, "Faults", "short"}, []alert{
			{"KustoAgentGzipFault", grows, "", warning,
				"The gzip encoder produced a wrong payload. Verification found it before it was sent, and klauspost compresses until the next start.",
				"Set batch.gzip_encoder: klauspost, and report it."}}},
	{"routes", gauge, []string{"state"}, "Routes, by state: up, retrying, down or held.", "",
		panel{rowHealth, "Routes", "short"}, []alert{
			{"KustoAgentRouteDown", `M{state="down"} > 0`, "10m", critical,
				"{{ $value }} routes have accepted nothing for ten minutes; their records wait in the spool or in the files.",
				"kusto-agent status shows the reason, since when, and the time of the next attempt."}}},
	{"routes_held", gauge, []string{"database", "table", "code"}, "Routes that are held, with the error code of the service; the status shows the fix.", "while none is",
		panel{rowHealth, "Routes held", "short"}, []alert{
			{"KustoAgentRouteHeld", "M > 0", "2m", critical,
				"The service refuses records for {{ $labels.database }}.{{ $labels.table }}: {{ $labels.code }}. They wait in their files and in the spool.",
				"kusto-agent status shows the fix: a table, mapping, policy, permission or token is missing."}}},
	{"route_blocked_seconds", gauge, []string{"database", "table", "code"}, "Seconds since a route is down or held, or its cluster is, with the error code of the service, or none if there was no answer; the status shows the reason and the fix.", "while none is",
		panel{rowHealth, "Routes blocked for", "s"}, nil},
	{"route_next_try_seconds", gauge, []string{"database", "table"}, "Seconds until the next attempt on a route that is down or held; 0 while one is under way.", "while none is",
		panel{rowHealth, "Routes blocked: next attempt in", "s"}, nil},
	{"token_expires_seconds", gauge, nil, "Seconds until the first of the tokens expires; negative after that.", "without a token",
		panel{rowService, "Token expires in", "s"}, []alert{
			{"KustoAgentTokenExpires", "M < 120", "5m", warning,
				"The token is about to expire, and requests for a new one fail.",
				"Check the credentials and the network path to the authority: kusto-agent check shows the fault."}}},

	// Spool and quarantine.
	{"records_spooled", gauge, byInput, "Records in the spool.", "",
		panel{rowBuffers, "Records in the spool", "short"}, nil},
	{"spool_bytes", gauge, nil, "Bytes in the spool.", "without a spool",
		panel{rowBuffers, "Bytes in spool and quarantine", "bytes"}, nil},
	{"spool_oldest_seconds", gauge, nil, "Seconds since the oldest payload in the spool was written.", "without a spool",
		panel{rowBuffers, "Oldest payload in the spool", "s"}, []alert{
			{"KustoAgentSpoolOld", "M > 3600", "10m", warning,
				"A payload has waited in the spool for more than an hour.",
				"kusto-agent status shows the route that does not accept it; kusto-agent spool ls lists the payloads."}}},
	{"spool_healthy", gauge, nil, "1 while the spool accepts payloads; 0: it is full or its disk fails.", "without a spool",
		panel{rowHealth, "Health", "bool"}, []alert{
			{"KustoAgentSpoolUnhealthy", "M == 0", "5m", critical,
				"The spool is full or its disk fails: payloads stay in memory and in their files.",
				"Free space on the disk, raise spool.max_size, or restore the service; the log shows which."}}},
	{"quarantine_bytes", gauge, nil, "Bytes in quarantine.", "",
		panel{rowBuffers, "Bytes in spool and quarantine", "bytes"}, nil},
	{"quarantine_healthy", gauge, nil, "1 while quarantine accepts records; 0: it is full or its disk fails, and files with invalid records are paused.", "",
		panel{rowHealth, "Health", "bool"}, []alert{
			{"KustoAgentQuarantineUnhealthy", "M == 0", "5m", critical,
				"Quarantine is full or its disk fails: files are paused at their first invalid record.",
				"Look at the records with kusto-agent quarantine ls, then give some up with kusto-agent quarantine rm, or raise quarantine.max_size."}}},
	{"quarantine_dropped_records_total", counter, nil, "Records removed from quarantine to free space, with quarantine.when_full: drop_oldest.", "",
		panel{rowBuffers, "Records removed from quarantine", perSecond}, []alert{
			{"KustoAgentQuarantineDropped", grows, "", critical,
				"Quarantine was full, and its oldest records were removed.",
				"Raise quarantine.max_size, or fix the cause of the invalid records."}}},

	// Files.
	{"files", gauge, []string{"state"}, "Tracked files, by state.", "without a file",
		panel{rowFiles, "Files", "short"}, nil},
	{"known_files_bytes", gauge, nil, "Memory taken by what the agent knows of files, about; it comes on top of limits.memory.", "",
		panel{rowFiles, "Memory for files", "bytes"}, nil},
	{"file_lag_bytes", gauge, byInput, "Lag: bytes in the files of an input behind their checkpoints.", "",
		panel{rowFiles, "Behind in files", "bytes"}, []alert{
			{"KustoAgentFallingBehind", "M > 100e6 and deriv(M[30m]) > 0", "30m", warning,
				"Input {{ $labels.input }} is {{ $value | humanize1024 }}B behind its files, and it gets more.",
				"kusto-agent status shows whether a route is blocked. If none is, raise send.concurrency or give the cluster more nodes."}}},
	{"pinned_deleted_bytes", gauge, byInput, "Disk space of deleted files that the agent keeps open until all of their bytes are safe; at most max_pinned_deleted.", "",
		panel{rowFiles, "Held in deleted files", "bytes"}, []alert{
			{"KustoAgentDeletedFilesHeld", "M > 500e6", "10m", warning,
				"Input {{ $labels.input }} holds {{ $value | humanize1024 }}B on the disk in deleted files that are not delivered yet. Above max_pinned_deleted (1GiB) the oldest is abandoned.",
				"kusto-agent files shows which; keep rotated files longer, or raise max_pinned_deleted."}}},
	{"tail_rotations_total", counter, byInput, "Files that were rotated.", "",
		panel{rowFiles, "Rotations and truncations", "short"}, nil},
	{"tail_truncations_total", counter, byInput, "Files that were truncated or rewritten in place.", "",
		panel{rowFiles, "Rotations and truncations", "short"}, nil},
	{"tail_truncated_unread_bytes_total", counter, byInput, "Bytes that were truncated away before they were read, as far as the agent has seen the file grow.", "",
		panel{rowFiles, "Bytes lost in files", "Bps"}, []alert{
			{"KustoAgentTruncatedUnread", grows, "", critical,
				"A file of input {{ $labels.input }} was truncated before it was read to its end: those bytes are lost.",
				"Rotate by rename instead of copytruncate."}}},
	{"tail_abandoned_bytes_total", counter, byInput, "Unread bytes of deleted files that were abandoned because of max_pinned_deleted, too few descriptors, or a stop that took too long; the log shows the cause.", "",
		panel{rowFiles, "Bytes lost in files", "Bps"}, []alert{
			{"KustoAgentFilesAbandoned", grows, "", critical,
				"Deleted files of input {{ $labels.input }} were abandoned with unread bytes.",
				"The log shows the file and the key to raise: max_pinned_deleted, limits.open_files or shutdown_timeout."}}},
	{"tail_vanished_files_total", counter, byInput, "Files that were deleted, moved away or rewritten while the agent was stopped, and of which neither they nor a copy were found: whether bytes were left unread is not known; the log names the file.", "",
		panel{rowFiles, "Files not found again", "short"}, nil},
	{"tail_nul_bytes_total", counter, byInput, "NUL bytes between records, which are skipped.", "",
		panel{rowFiles, "NULs", "Bps"}, []alert{
			{"KustoAgentNULs", grows, "", warning,
				"Files of input {{ $labels.input }} contain NULs between their records; these are skipped.",
				"After a crash of the machine: nothing. Otherwise the writer does not append and its file is truncated: rotate by rename."}}},
	{"watch_healthy", gauge, nil, "1 while the kernel reports all file changes; 0: some folders are polled.", "",
		panel{rowHealth, "Health", "bool"}, []alert{
			{"KustoAgentFilesPolled", "M == 0", "15m", warning,
				"The kernel does not report all file changes. No records are lost, but folders are polled, which costs more.",
				"The log shows the limit to raise: fs.inotify.max_user_watches or fs.inotify.max_user_instances."}}},

	// The agent itself.
	{"state_disk_healthy", gauge, nil, "1 while the journal can be written to the state disk; 0: delivery continues, and after a crash more records may be sent twice.", "",
		panel{rowHealth, "Health", "bool"}, []alert{
			{"KustoAgentStateDiskUnhealthy", "M == 0", "1m", critical,
				"The state disk is full, read-only or failing. Delivery continues; after a crash, records sent meanwhile are sent again.",
				"Check the disk of state_dir; no restart is needed."}}},
	{"config_last_reload_successful", gauge, nil, "1 if the last reload succeeded.", "",
		panel{rowHealth, "Health", "bool"}, []alert{
			{"KustoAgentReloadFailed", "M == 0", "1m", warning,
				"The last reload was rejected because the configuration has mistakes.",
				"kusto-agent check --offline shows them; fix them and reload again."}}},
	{"log_lines_dropped_total", counter, nil, "Lines of the agent's own log that were dropped because its reader is too slow or gone.", "",
		panel{rowHealth, "Faults", "short"}, []alert{
			{"KustoAgentLogLinesDropped", grows, "", warning,
				"The reader of the agent's own log is too slow or gone, and lines were dropped.",
				"Check the reader of its stderr: journald and its disk, the container runtime, or the program behind the pipe."}}},
	{"build_info", gauge, []string{"version", "goversion"}, "What runs. Always 1.", "", panel{}, nil},
}

// entryOf returns the catalog entry of a metric. It panics if there is none, which shows when the
// program starts.
func entryOf(name string) *metric {
	i := slices.IndexFunc(catalog, func(m *metric) bool { return m.name == name })
	if i < 0 {
		panic(fmt.Sprintf("metric %s is not in the catalog", name))
	}
	return catalog[i]
}

// fullHelp returns the help text of a metric as /metrics shows it, with the condition under which it
// is absent.
func (m *metric) fullHelp() string {
	if m.absent == "" {
		return m.help
	}
	return m.help + " Absent " + m.absent + "."
}

// description is a metric of the catalog as a scrape sends it.
type description struct {
	*prometheus.Desc
	kind prometheus.ValueType // of a counter or a gauge
}

// described are the descriptions of all metrics, by name.
var described = sync.OnceValue(func() map[string]description {
	all := make(map[string]description)
	for _, m := range catalog {
		kind := map[kind]prometheus.ValueType{counter: prometheus.CounterValue, gauge: prometheus.GaugeValue}[m.kind]
		all[m.name] = description{prometheus.NewDesc(namespace+"_"+m.name, m.fullHelp(), m.labels, nil), kind}
	}
	return all
})
