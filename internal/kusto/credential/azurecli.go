package credential

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// cliLogin runs az with the user who is signed in to it.
type cliLogin struct{ tenant string }

func (l *cliLogin) wantsAuthority() bool { return false }
func (l *cliLogin) changed() bool        { return false }
func (l *cliLogin) close()               {}

// ask runs az, the Azure CLI, to get a token for the resource, and returns the token and its
// expiry. The URL of the authority is ignored, since az knows where to sign in.
func (l *cliLogin) ask(ctx context.Context, _, resource string) (string, time.Time, error) {
	cred, err := azidentity.NewAzureCLICredential(&azidentity.AzureCLICredentialOptions{TenantID: l.tenant})
	if err != nil {
		return "", time.Time{}, l.explain(ctx, err)
	}
	t, err := cred.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{resource}})
	if err != nil {
		return "", time.Time{}, l.explain(ctx, err)
	}
	return t.Token, t.ExpiresOn, nil
}

// explain returns an error of az as a *kusto.Error with a hint, such as to install az or to sign
// in. ctx is that of the run of az: if its deadline has passed, az did not answer in time.
func (l *cliLogin) explain(ctx context.Context, err error) error {
	words := strings.TrimPrefix(err.Error(), "AzureCLICredential: ")
	words, _, _ = strings.Cut(words, "To troubleshoot, visit")
	words = strings.TrimSpace(words)
	e := &kusto.Error{
		Code:    aadCode.FindString(words),
		Message: reply.Printable("get token: az: "+strings.TrimPrefix(firstLine(words), "ERROR: "), reply.MaxMessage),
	}
	again := "az login"
	if l.tenant != "" {
		again += " --tenant <tenant>"
	}
	lower := strings.ToLower(words)
	switch {
	case aadHints[e.Code] != "":
		e.Hint = aadHints[e.Code]
	case strings.Contains(lower, "not found"):
		e.Hint = "install the Azure CLI where PATH finds it (https://aka.ms/azure-cli), then, as the user the agent runs as: " + again
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Cause = context.DeadlineExceeded
		e.Message, e.Hint = "get token: az did not answer in time", "see what it waits for: az account get-access-token"
	case strings.Contains(lower, "az login"), strings.Contains(lower, "az account"), strings.Contains(lower, "logged"):
		e.Hint = "as the user the agent runs as: " + again + "; a service better uses managed_identity or client_secret"
	default:
		e.Hint = "see what is wrong with it, as the user the agent runs as: az account get-access-token; then: " + again
	}
	e.Timely = timelyCodes[e.Code]
	return e
}
