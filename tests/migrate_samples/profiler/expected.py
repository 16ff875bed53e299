import torch
import torch_npu
import torch.profiler
from torch import profiler
from torch_npu.profiler import ProfilerActivity, profile, tensorboard_trace_handler
from torch.profiler import record_function

activities = [ProfilerActivity.CPU, ProfilerActivity.NPU]
with profile(activities=activities, on_trace_ready=tensorboard_trace_handler("log")) as p:
    with record_function("step"):
        pass
    p.step()
print(p.key_averages().table(sort_by="cuda_time_total"))
with torch_npu.profiler.profile(activities=[torch_npu.profiler.ProfilerActivity.NPU], schedule=torch_npu.profiler.schedule(wait=1)) as q:
    torch.cuda.nvtx.range_push("forward")
    torch.cuda.nvtx.range_pop()
with torch.autograd.profiler.profile(use_cuda=True):
    pass
