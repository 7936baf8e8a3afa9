"""What moto 5.2.1 must be helped with before its interpreter can run a
deployed state machine. Importing this module helps. Each repair is of moto's
own making up, not of Lockstep's: AWS does what is repaired here.
"""

import copy
import types

import moto.stepfunctions.models as models
import moto.stepfunctions.parser.models as interpreter
from moto.core.config import default_user_config

# Executions are interpreted, and not only written down.
default_user_config["stepfunctions"]["execute_state_machine"] = True

# StartExecution deep-copies the state machine, with the executions that it
# had, whose locks cannot be copied: the second one fails. A shallow copy is
# enough, since an update puts new values into the machine's fields.
interpreter.copy = types.SimpleNamespace(deepcopy=copy.copy)

# CloudFormation makes state machines where the interpreter does not look.
models.stepfunctions_backends = interpreter.stepfunctions_parser_backends


# CloudFormation leaves out DefinitionSubstitutions.
def _substituting(method):
    def call(cls, *positional, **named):
        template = named["cloudformation_json"] if "cloudformation_json" in named else positional[1]
        properties = template["Properties"]
        for name, value in properties.get("DefinitionSubstitutions", {}).items():
            properties["DefinitionString"] = properties["DefinitionString"].replace("${" + name + "}", value)
        return method.__func__(cls, *positional, **named)

    return classmethod(call)


models.StateMachine.create_from_cloudformation_json = _substituting(models.StateMachine.create_from_cloudformation_json)
models.StateMachine.update_from_cloudformation_json = _substituting(models.StateMachine.update_from_cloudformation_json)
