package front

import (
	"errors"
	"net/http"

	"writ"
	"writ/coord/api/apiserver"
)

// BadRequest converts an error of the generated code. It names the invalid parameter and drops the text about
// schemas.
func BadRequest(err error) error {
	if parameter, ok := errors.AsType[*apiserver.InvalidParamFormatError](err); ok {
		return WrongParameter(parameter.ParamName, "cannot be read")
	}
	if parameter, ok := errors.AsType[*apiserver.RequiredParamError](err); ok {
		return writ.Errorf(writ.CodeBadRequest, "the parameter %q is missing", parameter.ParamName).
			WithHint("set %s; /openapi.yaml lists the valid values", parameter.ParamName)
	}
	if parameter, ok := errors.AsType[*apiserver.TooManyValuesForParamError](err); ok {
		return writ.Errorf(writ.CodeBadRequest, "the parameter %q occurs %d times", parameter.ParamName, parameter.Count)
	}
	if refused := RefusedBody(err); refused != nil {
		return refused
	}
	return writ.Errorf(writ.CodeBadRequest, "invalid body: %v", err)
}

// WrongParameter is the error for a parameter with an invalid value.
func WrongParameter(name, why string) error {
	return writ.Errorf(writ.CodeBadRequest, "the parameter %q %s", name, why).
		WithHint("omit %s, or set a valid value; see /openapi.yaml", name)
}

// RefusedBody returns TOO_LARGE if the body exceeds its limit, and RATE_LIMITED if the server holds too many bodies.
// Otherwise it returns nil.
func RefusedBody(err error) error {
	if limited, ok := errors.AsType[*writ.Error](err); ok && limited.Code == writ.CodeRateLimited {
		return limited
	}
	if cut, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return writ.Errorf(writ.CodeTooLarge, "the body has more than %d bytes", cut.Limit)
	}
	return nil
}
