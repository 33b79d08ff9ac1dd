package sender

import (
	"cmp"
	"log/slog"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/sender/internal/delivery"
)

// writeNotice writes a notice of the delivery machine to the log, with advice in the attribute fix if
// there is any. A notice about a route is logged with database and table, one about a cluster with
// the cluster, and one about a payload also with its batch id, attempt and number of records. A
// notice that stands for several of its kind says for how many, in the attribute times.
func (s *Sender) writeNotice(n *delivery.Notice, times int) {
	log := s.o.Logger
	if n.Route.Table != "" {
		log = log.With("database", n.Route.Database, "table", n.Route.Table)
	} else {
		log = log.With("cluster", n.Cluster)
	}
	if p := n.Batch; p != nil {
		log = log.With("batch", p.ID.String(), "attempt", p.Attempt, "records", p.Records)
	}
	if times > 1 {
		log = log.With("times", times)
	}
	ans := &n.Answer
	switch n.What {
	case delivery.Retrying:
		log.Warn("request failed, will retry", "verdict", ans.Verdict.String(),
			"activity", ans.ActivityID, "err", ans.Err, "fix", cmp.Or(ans.Hint, delivery.RetryFix(ans.Verdict)))
	case delivery.FailingAlone:
		log.Warn("batch keeps failing while others of its table are accepted, retrying it on its own schedule",
			"verdict", ans.Verdict.String(), "activity", ans.ActivityID, "err", ans.Err,
			"fix", cmp.Or(ans.Hint, "it keeps no other batch from being sent; if it stays so, something in its body is refused: look at what answers, a proxy or the service"))
	case delivery.ClusterDown:
		logDown(log, "cluster is down, probing with backoff", n)
	case delivery.RouteDown:
		logDown(log.With("cluster", n.Cluster), "route is down, probing with backoff", n)
	case delivery.RouteRecovered:
		log.Info("route recovered: its table accepts records again", "failures", n.Count)
	case delivery.RouteHeld:
		h := &n.Hold
		log.Error("route is held: nothing is sent to its table until the cause is fixed, its records are kept", "status", h.Status, "code", h.Code, "activity", h.Activity, "err", h.Message, "fix", h.Fix)
	case delivery.ClusterHeld:
		h := &n.Hold
		log.Error("cluster is held: without a valid token nothing is sent to it, its records are kept", "code", h.Code, "activity", h.Activity, "err", h.Message, "fix", h.Fix)
	case delivery.LongRetryAfter:
		log.Warn("Retry-After is longer than 60 s, waiting 60 s", "asked", ans.RetryAfter,
			"activity", ans.ActivityID, "err", ans.Err, "fix", cmp.Or(ans.Hint, delivery.RetryFix(ans.Verdict)))
	case delivery.Searching:
		log.Warn("batch was refused, bisecting it to find the bad records", "activity", ans.ActivityID, "err", ans.Err,
			"fix", "nothing, the valid records are sent, and the bad ones go to quarantine")
	case delivery.SizeLearned:
		log.Warn("batch was refused as too large: it is split and sent again if possible, later ones of its table are smaller", "bytes", n.Count, "activity", ans.ActivityID, "err", ans.Err,
			"fix", "nothing, larger ones are tried again after 15 minutes; to spare these requests set batch.max_size of its inputs to the limit of the service")
	case delivery.UnknownAtStop:
		log.Warn("outcome of a batch is unknown at shutdown, it will be sent again after the next start and may be stored twice")
	case delivery.UnknownReplaced:
		log.Warn("outcome of a batch is unknown, its records are sent again under another id and may be stored twice")
	}
}

// logDown logs at level Warn that a route or cluster is down: what is the message. The log line has
// how long nothing was accepted, and the last error or that there was no answer yet.
func logDown(log *slog.Logger, what string, n *delivery.Notice) {
	e := cmp.Or(n.Last, delivery.NoAnswerYet)
	log.Warn(what, "last", e, "activity", e.ActivityID, "fix", cmp.Or(e.Hint, delivery.RetryFix(kusto.Retry)), "elapsed", n.Elapsed.Round(time.Millisecond))
}
