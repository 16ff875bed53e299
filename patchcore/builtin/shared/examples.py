"""The examples in the help of the commands that parse their arguments themselves."""

__all__ = ["ADOPT", "AUDIT", "BISECT", "ENVIRONMENT", "PLAN", "RUN", "VERIFY"]

ADOPT = "patchcore adopt my-model-npu -- train.py"
AUDIT = "patchcore audit train.py --epochs 1"
BISECT = 'patchcore bisect --oracle "loss: nan" -- train.py'
ENVIRONMENT = "patchcore environment --as kubernetes --strict"
PLAN = "patchcore plan --compat mindspeed -- --num-experts 4"
RUN = "patchcore run --report-dir run1 train.py --epochs 2"
VERIFY = "patchcore verify mmcv.nms_rotated --rounds 10"
